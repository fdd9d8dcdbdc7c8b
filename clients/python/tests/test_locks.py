"""Locks at real nodes, beside `mutua lock`. MUTUA is the binary."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import unittest
from unittest import mock

import mutua
from nodes import MUTUA, AtOneNode, Cluster, wait_for


class OneNode(AtOneNode):
    def test_a_guard_excludes_other_clients_until_its_block_ends(self) -> None:
        client, name = self.client(owner="ann"), self.id()
        with client.lock(name) as guard:
            self.assertGreater(guard.fencing_token, 0)
            self.assertFalse(guard.lost)
            self.assertFalse(self.cluster.is_free(0, name))
            with self.assertRaises(mutua.NotAcquiredError):
                client.lock(name).acquire(timeout=0)
            with self.assertRaises(mutua.NotAcquiredError) as refused:
                self.client().lock(name).acquire(timeout=0.05)
            holder = refused.exception.holder
            assert holder is not None
            self.assertEqual((holder.owner, holder.pid), ("ann", os.getpid()))
            self.assertEqual(holder.fencing_token, guard.fencing_token)
        wait_for("the release", lambda: self.cluster.is_free(0, name))
        with client.lock(name) as later:
            self.assertGreater(later.fencing_token, guard.fencing_token)

    def test_threads_exclude_each_other_with_one_client_and_with_two(self) -> None:
        name, tokens, holders = self.id(), [], []

        def work(client: mutua.Client) -> None:
            for _ in range(20):
                with client.lock(name) as guard:
                    holders.append(1)
                    self.assertEqual(len(holders), 1)
                    tokens.append(guard.fencing_token)
                    holders.pop()

        clients = [self.client(), self.client()]
        threads = [threading.Thread(target=work, args=(clients[i % 2],)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        self.assertEqual(len(tokens), 80)
        self.assertEqual(tokens, sorted(set(tokens)))

    def test_tasks_exclude_each_other_and_a_cancelled_one_leaves_the_queue(self) -> None:
        name, client = self.id(), self.client()

        async def main() -> None:
            tokens: list[int] = []

            async def work() -> None:
                async with client.lock(name) as guard:
                    tokens.append(guard.fencing_token)

            await asyncio.gather(*(work() for _ in range(10)))
            self.assertEqual(tokens, sorted(set(tokens)))
            async with self.client().lock(name):
                waits = asyncio.create_task(client.lock(name).acquire_async())
                with self.assertRaises(asyncio.TimeoutError):
                    await asyncio.wait_for(waits, 0.2)
                with self.assertRaises(mutua.NotAcquiredError):
                    await client.lock(name).acquire_async(timeout=0)
            await (asyncio.to_thread(wait_for, "the release", lambda: self.is_free(name)))

        asyncio.run(main())

    def is_free(self, name: str) -> bool:
        return self.cluster.is_free(0, name)

    def test_a_broken_lock_is_lost_and_its_block_raises(self) -> None:
        name, client, reasons = self.id(), self.client(ttl=5), []
        with self.assertRaises(mutua.LockLostError):
            with client.lock(name) as guard:
                guard.on_lost(reasons.append)
                done = self.cluster.mutua("break", 0, name, "--reason", "stuck", "--yes")
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertTrue(guard.wait_lost(30))
                wait_for("the callback", lambda: bool(reasons))
                self.assertIn("stuck", reasons[0])
                self.assertIn("stuck", asyncio.run(guard.wait_lost_async()))
                self.assertTrue(guard.lost)

    def test_the_node_of_this_host_is_found_by_socket_and_by_configuration(self) -> None:
        socket = self.cluster.endpoint(0).removeprefix("unix:")
        config = str(self.cluster.config(0))
        for variables in ({"MUTUA_SOCKET": socket}, {"MUTUA_CONFIG": config}):
            with mock.patch.dict(os.environ, variables), mutua.Client() as client:
                with client.lock(self.id()) as guard:
                    self.assertFalse(guard.lost)
        with mock.patch.dict(os.environ, {"MUTUA_SOCKET": socket}):
            with mutua.lock(self.id(), timeout=30) as guard:
                self.assertFalse(self.is_free(self.id()))
            mutua.default_client().close()

    def test_errors_say_what_is_wrong(self) -> None:
        for endpoint in ("", "host", "host:0", "tcp://host:1", "unix:"):
            with self.assertRaises(mutua.ConfigError, msg=endpoint):
                mutua.Client(endpoint)
        nowhere = mutua.Client("unix:/nonexistent/socket", unreachable_after=30)
        with self.assertRaisesRegex(mutua.UnreachableError, "No such file"):
            nowhere.lock("x").acquire()
        with self.assertRaisesRegex(mutua.ConfigError, "requires a node of cluster shop"):
            self.client(cluster="shop")
        with self.assertRaises(mutua.ConfigError):
            self.client().lock("x" * 5000).acquire()
        with self.assertRaisesRegex(mutua.ConfigError, "empty"):
            self.client().lock("")
        for ttl in (0, 0.5, "10s"):
            with self.assertRaisesRegex(mutua.ConfigError, "at least 1"):
                self.client(ttl=ttl)
        closed = self.client()
        closed.close()
        with self.assertRaises(mutua.ClosedError):
            closed.lock("x").acquire()

    def test_a_program_that_ends_without_a_word_holds_nothing(self) -> None:
        name = self.id()
        text = (
            "import mutua, os, sys\n"
            "mutua.Client(sys.argv[1]).lock(sys.argv[2]).acquire()\n"
            "print('held', flush=True)\n"
            "os._exit(1)\n"
        )
        words = [sys.executable, "-c", text, self.cluster.endpoint(0), name]
        ended = subprocess.run(words, capture_output=True, text=True)
        self.assertEqual(ended.stdout, "held\n", ended.stderr)
        wait_for("the release", lambda: self.is_free(name))


class ThreeNodes(unittest.TestCase):
    def setUp(self) -> None:
        self.cluster = Cluster(3)
        self.addCleanup(self.cluster.close)

    def test_a_guard_lives_on_when_its_node_is_killed(self) -> None:
        client = mutua.Client(self.cluster.endpoint(0), ttl=8, cluster="test")
        self.addCleanup(client.close)
        with client.lock("x") as guard:
            self.cluster.kill(0)
            # The client goes on at another node with the same lock, and acquires others there.
            with client.lock("y").acquire(timeout=30):
                self.assertFalse(guard.lost)
                self.assertFalse(self.cluster.is_free(2, "x"))
        with mutua.Client([self.cluster.endpoint(0), self.cluster.endpoint(2)]) as other:
            with other.lock("x").acquire(timeout=30) as later:
                self.assertGreater(later.fencing_token, guard.fencing_token)


    def test_a_release_that_a_killed_node_did_not_receive_is_made_at_another_one(self) -> None:
        # Longer than the test waits: nothing is free because a lease expires.
        client = mutua.Client(self.cluster.endpoint(0), ttl=300, cluster="test")
        released, kept = client.lock("released").acquire(), client.lock("kept").acquire()
        self.cluster.kill(0)
        released.release()
        with self.assertRaises(mutua.LockLostError):
            released.check()
        with mutua.Client(self.cluster.endpoint(2)) as other:
            other.lock("released").acquire(timeout=60).release()
            client.close()
            self.assertTrue(kept.lost, "another client may hold it from now on")
            other.lock("kept").acquire(timeout=60).release()


if __name__ == "__main__":
    print(f"with {MUTUA}")
    unittest.main()
