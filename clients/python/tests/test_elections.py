"""Elections at real nodes, beside `mutua elect`. MUTUA is the binary."""

from __future__ import annotations

import asyncio
import queue
import subprocess
import threading
import unittest

import mutua
from nodes import MUTUA, Cluster, wait_for


class OneNode(unittest.TestCase):
    def setUp(self) -> None:
        self.cluster = Cluster(1)
        self.addCleanup(self.cluster.close)

    def client(self, **options: object) -> mutua.Client:
        client = mutua.Client(self.cluster.endpoint(0), **options)  # type: ignore[arg-type]
        self.addCleanup(client.close)
        return client

    def test_candidates_lead_one_after_the_other_and_observers_see_their_values(self) -> None:
        first, second = self.client().election("e"), self.client().election("e")
        observer = self.client().election("e").observe()
        self.assertIsNone(next(observer))
        with first.campaign("one") as leads:
            seen = next(observer)
            assert seen is not None
            self.assertEqual((seen.value, seen.fencing_token), (b"one", leads.fencing_token))
            with self.assertRaises(mutua.NotAcquiredError):
                second.campaign("two", timeout=0)
            leads.proclaim("one again")
            seen = next(observer)
            assert seen is not None
            self.assertEqual((seen.value, seen.fencing_token), (b"one again", leads.fencing_token))
            same = second.leader()
            assert same is not None
            self.assertEqual((same.value, same.fencing_token), (seen.value, seen.fencing_token))
            self.assertFalse(self.cluster.is_free(0, "e"), "the lock of that name is held")
        with second.campaign("two", timeout=30) as later:
            self.assertGreater(later.fencing_token, leads.fencing_token)
            values = [leader.value for leader in [second.leader()] if leader is not None]
            self.assertEqual(values, [b"two"])
        with self.assertRaises(mutua.LockLostError):
            later.proclaim("three")
        observer.close()

    def test_a_candidate_waits_for_the_leader_of_the_command_line(self) -> None:
        words = [MUTUA, "elect", "--endpoint", self.cluster.endpoint(0), "e", "shell", "--", "cat"]
        shell = subprocess.Popen(words, stdin=subprocess.PIPE)
        election = self.client().election("e")

        def leader() -> bytes | None:
            present = election.leader()
            return None if present is None else present.value

        wait_for("the leader", lambda: leader() == b"shell")
        elected: queue.Queue[mutua.Leadership] = queue.Queue()
        threading.Thread(target=lambda: elected.put(election.campaign("python"))).start()
        with self.assertRaises(queue.Empty):
            elected.get(timeout=0.2)
        shell.communicate()
        elected.get(timeout=30).resign()
        wait_for("the resignation", lambda: leader() is None)

    def test_tasks_campaign_and_observe(self) -> None:
        client = self.client()

        async def main() -> None:
            election = client.election("e")
            leaders = election.observe_async()
            self.assertIsNone(await anext(leaders))
            leads = await election.campaign_async(b"task")
            seen = await anext(leaders)
            assert seen is not None
            self.assertEqual(seen.value, b"task")
            await leads.proclaim_async("later")
            seen = await anext(leaders)
            assert seen is not None
            self.assertEqual(seen.value, b"later")
            leads.resign()
            self.assertIsNone(await anext(leaders))

        asyncio.run(main())

    def test_a_broken_leadership_is_lost(self) -> None:
        leads = self.client(ttl=5).election("e").campaign("x")
        done = self.cluster.mutua("break", 0, "e", "--reason", "stuck", "--yes")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(leads.wait_lost(30))
        with self.assertRaisesRegex(mutua.LockLostError, "stuck"):
            leads.proclaim("y")


class ThreeNodes(unittest.TestCase):
    def test_a_leader_and_its_observer_go_on_when_their_node_is_killed(self) -> None:
        cluster = Cluster(3)
        self.addCleanup(cluster.close)
        client = mutua.Client(cluster.endpoint(0), ttl=8, cluster="test")
        self.addCleanup(client.close)
        observer = client.election("e").observe()
        with client.election("e").campaign("first") as leads:
            seen = next(observer)
            while seen is None:
                seen = next(observer)
            cluster.kill(0)
            # The next value reaches the node that serves the session from now on.
            leads.proclaim("second")
            self.assertFalse(leads.lost)
            while seen is None or seen.value != b"second":
                seen = next(observer)
            self.assertEqual(seen.fencing_token, leads.fencing_token)
        observer.close()
