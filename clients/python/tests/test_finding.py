"""How the node is found, how long that may take, and what is said if there is none."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import mutua
from mutua import _client, _endpoint
from nodes import MUTUA, Cluster, free_port

NO_NODE = {"MUTUA_SOCKET": "", "MUTUA_CONFIG": "", "MUTUA_CLUSTER": ""}
CONFIGURATION = Path(__file__).parents[3] / "crates/node/src/config/file.rs"


def found(**variables: str) -> mock._patch_dict:
    """The environment in which a node is found by these variables only."""
    return mock.patch.dict(os.environ, NO_NODE | variables)


class Finding(unittest.TestCase):
    def setUp(self) -> None:
        # Each test finds the node anew.
        self.addCleanup(self.forget)

    def forget(self) -> None:
        for client in _client._default.values():
            client.close()
        _client._default.clear()


class RequiredCluster(Finding):
    members: Cluster
    alone: Cluster

    @classmethod
    def setUpClass(cls) -> None:
        cls.members, cls.alone = Cluster(3), Cluster(1)
        cls.addClassCleanup(cls.members.close)
        cls.addClassCleanup(cls.alone.close)

    def cli(self) -> int:
        return subprocess.run([MUTUA, "lock", "-n", "x", "true"], capture_output=True).returncode

    def assert_refused(self, says: str) -> None:
        self.assertEqual(self.cli(), 78)
        for use in (mutua.lock("x", timeout=5).acquire, mutua.Client, mutua.default_client):
            with self.assertRaisesRegex(mutua.ConfigError, says):
                use()
        with self.assertRaisesRegex(mutua.ConfigError, says):
            asyncio.run(mutua.lock("x", timeout=5).acquire_async())

    def test_a_node_of_the_required_cluster_is_accepted(self) -> None:
        with found(MUTUA_CONFIG=str(self.members.config(0)), MUTUA_CLUSTER="test"):
            with mutua.lock("x", timeout=30):
                self.assertEqual(self.cli(), 75)

    def test_a_node_of_another_cluster_is_refused(self) -> None:
        says = "MUTUA_CLUSTER requires a node of cluster other, but .* is node a of cluster test"
        path = self.members.endpoint(0).removeprefix("unix:")
        for variables in ({"MUTUA_CONFIG": str(self.members.config(0))}, {"MUTUA_SOCKET": path}):
            with found(**variables, MUTUA_CLUSTER="other"):
                self.assert_refused(says)

    def test_a_node_that_lists_no_other_member_is_refused(self) -> None:
        with found(MUTUA_CONFIG=str(self.alone.config(0)), MUTUA_CLUSTER="test"):
            self.assert_refused("node a, which is in no cluster")
        with self.assertRaisesRegex(mutua.ConfigError, "in no cluster"):
            mutua.Client(self.alone.endpoint(0), cluster="test")

    def test_the_node_of_a_user_is_refused(self) -> None:
        with found(MUTUA_CLUSTER="test"):
            self.assert_refused("no configuration was found, and this user's node is local")
        with tempfile.TemporaryDirectory() as directory:
            path = f"{directory}/local.sock"
            with found(MUTUA_SOCKET=path):
                subprocess.run([MUTUA, "lock", "x", "true"], check=True)
            with found(MUTUA_SOCKET=path, MUTUA_CLUSTER="test"):
                self.assert_refused("this user's node, whose locks are local")
            with socket.socket(socket.AF_UNIX) as connection:
                connection.connect(path)
                peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
            os.kill(int.from_bytes(peer[:4], sys.byteorder), signal.SIGKILL)

    def test_two_clusters_cannot_both_be_required(self) -> None:
        with found(MUTUA_CONFIG=str(self.members.config(0)), MUTUA_CLUSTER="other"):
            with self.assertRaisesRegex(mutua.ConfigError, "MUTUA_CLUSTER requires .*other"):
                mutua.Client(cluster="test")


def seconds(call: Callable[[], object]) -> float:
    began = time.monotonic()
    call()
    return time.monotonic() - began


class Timeouts(Finding):
    def setUp(self) -> None:
        super().setUp()
        self.cluster = Cluster(1)
        self.addCleanup(self.cluster.close)
        self.socket = self.cluster.endpoint(0).removeprefix("unix:")
        # So long that what takes a second is told from it on a busy machine.
        patched = mock.patch.object(_endpoint, "CONNECT_LIMIT", 600)
        patched.start()
        self.addCleanup(patched.stop)

    def assert_ends(self, call: Callable[[], object], within: float = 60) -> None:
        def fails() -> None:
            with self.assertRaises(mutua.UnreachableError):
                call()

        self.assertLess(seconds(fails), within)

    def test_a_refused_connection_is_reported_at_once(self) -> None:
        endpoint = f"127.0.0.1:{free_port()}"
        self.assert_ends(lambda: mutua.Client([endpoint], unreachable_after=600))

    def test_a_timeout_includes_finding_a_node_that_does_not_answer(self) -> None:
        with found(MUTUA_SOCKET=self.socket), self.cluster.stopped(0):
            for timeout in (0, 1):
                lock = mutua.lock("x", timeout=timeout)
                # Before the client gives up by itself after 10 s.
                self.assert_ends(lock.acquire, within=9)
                self.assert_ends(lambda: asyncio.run(lock.acquire_async()), within=9)
            endpoint = self.cluster.endpoint(0)
            self.assert_ends(lambda: mutua.Client(endpoint, timeout=1, unreachable_after=600))

    def test_a_timeout_includes_waiting_for_another_thread_that_finds_the_node(self) -> None:
        with found(MUTUA_SOCKET=self.socket), _client._default_mutex:
            self.assert_ends(mutua.lock("x", timeout=0).acquire)

    def test_a_request_that_does_not_wait_ends_when_its_node_is_silent(self) -> None:
        with mutua.Client(self.cluster.endpoint(0), ttl=60) as client:
            with self.cluster.stopped(0):
                self.assert_ends(client.lock("x", timeout=0).acquire)
            # The node may have granted it; then it is released.
            with client.lock("x", timeout=30), mutua.Client(self.cluster.endpoint(0)) as other:
                with self.assertRaises(mutua.NotAcquiredError):
                    other.lock("x").acquire(timeout=0)
            with mutua.Client(self.cluster.endpoint(0)) as other:
                other.lock("x").acquire(timeout=30).release()

    def test_a_request_that_does_not_wait_ends_when_its_node_is_lost(self) -> None:
        with mutua.Client(self.cluster.endpoint(0), unreachable_after=600) as client:
            client.lock("x").acquire().release()
            self.cluster.kill(0)
            self.assert_ends(client.lock("x", timeout=0).acquire)


class Messages(Finding):
    def test_a_configuration_with_an_unknown_key_is_named(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            file = Path(directory) / "a.toml"
            file.write_text('clustr = "shop"\nnode = "a"\n')
            with found(MUTUA_CONFIG=str(file)):
                says = f"{re.escape(str(file))}.* unknown key `clustr`.*`cluster`"
                with self.assertRaisesRegex(mutua.ConfigError, says):
                    mutua.Client()

    def test_a_node_that_serves_is_used_whatever_its_file_says(self) -> None:
        # A node of a later version may know the key.
        cluster = Cluster(1)
        self.addCleanup(cluster.close)
        config = cluster.config(0)
        config.write_text(f"later = 1\n{config.read_text()}")
        with found(MUTUA_CONFIG=str(config)), mutua.lock("x", timeout=30):
            pass

    def test_the_keys_are_those_of_the_nodes(self) -> None:
        text = CONFIGURATION.read_text()
        struct = re.search(r"struct File \{(.*?)\n\}", text, re.S)
        assert struct is not None
        keys = re.findall(r"^    (?:pub\(super\) )?(\w+): ", struct[1], re.M)
        self.assertEqual(_endpoint.KEYS, frozenset(keys))

    def test_the_socket_of_the_configuration_is_used(self) -> None:
        cluster = Cluster(1)
        self.addCleanup(cluster.close)
        config = cluster.path / "other.toml"
        config.write_text('cluster = "test"\nnode = "a"\nsocket = "a/locks.sock"\n')
        with found(MUTUA_CONFIG=str(config)), mutua.lock("x", timeout=30):
            pass

    def refused(self, endpoint: str) -> str:
        with self.assertRaises(mutua.UnreachableError) as refused:
            mutua.Client(endpoint)
        self.assertIn(endpoint.removeprefix("https://"), str(refused.exception))
        return str(refused.exception)

    def test_the_cause_is_named(self) -> None:
        self.assertIn("Connection refused", self.refused(f"127.0.0.1:{free_port()}"))
        self.assertIn("No such file or directory", self.refused("unix:/nonexistent/socket"))
        with socket.create_server(("127.0.0.1", 0)) as silent:
            says = self.refused(f"127.0.0.1:{silent.getsockname()[1]}")
            self.assertIn("does not answer", says)

    def test_the_port_of_a_member_is_not_for_clients(self) -> None:
        cluster = Cluster(3)
        self.addCleanup(cluster.close)
        says = self.refused(cluster.address(0))
        self.assertIn("a member's address is not for clients: use its socket or the address of `--listen`", says)

    def test_a_node_that_serves_tls_needs_https(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            cert = [MUTUA, "cert", "--directory", directory]
            subprocess.run([*cert, "init"], check=True, capture_output=True)
            words = [*cert, "node", "a", "--host", "127.0.0.1"]
            subprocess.run(words, check=True, capture_output=True)
            subprocess.run([*cert, "client", "me"], check=True, capture_output=True)
            port = free_port()
            tls = "".join(
                f'{key} = "{directory}/{file}"\n'
                for key, file in (("ca", "ca.crt"), ("cert", "a.crt"), ("key", "a.key"))
            )
            cluster = Cluster(1, "--listen", f"127.0.0.1:{port}", tail=f"[tls]\n{tls}")
            self.addCleanup(cluster.close)
            self.assertIn("https://", self.refused(f"127.0.0.1:{port}"))
            names = {"MUTUA_CA": "ca.crt", "MUTUA_CERT": "me.crt", "MUTUA_KEY": "me.key"}
            files = {name: f"{directory}/{file}" for name, file in names.items()}
            with mock.patch.dict(os.environ, files):
                with mutua.Client(f"https://127.0.0.1:{port}") as client:
                    client.lock("x").acquire(timeout=30).release()


if __name__ == "__main__":
    unittest.main()
