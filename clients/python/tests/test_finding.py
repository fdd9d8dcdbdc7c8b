"""How the node is found, how long that may take, and what is said if there is none."""

from __future__ import annotations

import asyncio
import http.server
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import unittest
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest import mock

import grpc
import mutua
from mutua import _client, _endpoint
from nodes import MUTUA, Cluster, free_port, wait_for

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
        client = mutua.Client()
        for use in (mutua.lock("x", timeout=5).acquire, client.__enter__, mutua.default_client):
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
        client = mutua.Client(self.alone.endpoint(0), cluster="test")
        with self.assertRaisesRegex(mutua.ConfigError, "in no cluster"):
            client.lock("x").acquire()

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
                mutua.Client(cluster="test").lock("x").acquire()


#: Seconds that no test waits for, on the busiest machine.
NEVER = 600


class Timeouts(Finding):
    def setUp(self) -> None:
        super().setUp()
        self.cluster = Cluster(1)
        self.addCleanup(self.cluster.close)
        self.endpoint = self.cluster.endpoint(0)
        self.socket = self.endpoint.removeprefix("unix:")
        self.enterContext(mock.patch.object(_endpoint, "CONNECT_LIMIT", NEVER))
        # The limits of the attempts to connect at each endpoint: clients of other tests may try too.
        self.limits: dict[str, list[float]] = defaultdict(list)
        connect = _endpoint.connect

        def counted(endpoint: str, limit: float, wanted: _endpoint.Required | None) -> grpc.Channel:
            self.limits[endpoint].append(limit)
            return connect(endpoint, limit, wanted)

        self.enterContext(mock.patch.object(_endpoint, "connect", counted))

    def assert_unreachable(self, call: Callable[[], object], says: str = "") -> None:
        with self.assertRaisesRegex(mutua.UnreachableError, says):
            call()

    def test_a_refused_connection_is_reported_at_once(self) -> None:
        endpoint = f"http://127.0.0.1:{free_port()}"
        client = mutua.Client([endpoint], unreachable_after=NEVER)
        self.assert_unreachable(client.lock("x").acquire, "Connection refused")
        self.assertEqual(len(self.limits[endpoint]), 1, "it is not tried again")

    def test_a_timeout_includes_finding_a_node_that_does_not_answer(self) -> None:
        with found(MUTUA_SOCKET=self.socket), self.cluster.stopped(0):
            for timeout in (0, 1):
                lock = mutua.lock("x", timeout=timeout)
                # Less than the 10 s after which a client gives up by itself.
                self.assert_unreachable(lock.acquire, "does not answer")
                self.assert_unreachable(lambda: asyncio.run(lock.acquire_async()), "does not answer")
            client = mutua.Client(self.endpoint, timeout=1, unreachable_after=NEVER)
            self.assert_unreachable(client.__enter__, "does not answer")
        self.assertLessEqual(max(self.limits[self.endpoint]), 1)

    def test_a_client_connects_when_it_is_first_used_and_again_if_that_fails(self) -> None:
        self.cluster.kill(0)
        client = mutua.Client(self.endpoint)
        self.addCleanup(client.close)
        lock, election = client.lock("x"), client.election("e")
        self.assertEqual(self.limits[self.endpoint], [])
        uses: tuple[Callable[[], object], ...] = (
            lock.acquire,
            lambda: asyncio.run(lock.acquire_async()),
            lambda: election.campaign("a"),
            lambda: asyncio.run(election.campaign_async("a")),
            election.leader,
            client.__enter__,
        )
        for use in uses:
            self.assert_unreachable(use)
        self.assertEqual(len(self.limits[self.endpoint]), len(uses))
        self.cluster.start(0)
        with lock:
            pass
        with client, election.campaign("a", timeout=30):
            pass
        self.assertEqual(len(self.limits[self.endpoint]), len(uses) + 1, "it connects once")

    def test_a_client_that_is_closed_before_its_first_use_does_not_connect(self) -> None:
        client = mutua.Client(self.endpoint)
        client.close()
        for use in (client.lock("x").acquire, client.election("e").leader, client.__enter__):
            with self.assertRaises(mutua.ClosedError):
                use()
        self.assertEqual(self.limits[self.endpoint], [])

    def test_a_thread_with_little_time_does_not_end_the_search_of_another_one(self) -> None:
        client = mutua.Client(self.endpoint, unreachable_after=NEVER)
        self.addCleanup(client.close)
        lock = client.lock("x")
        with ThreadPoolExecutor() as threads:
            with self.cluster.stopped(0):
                short = threads.submit(lock.acquire, timeout=0)
                wait_for("the first attempt", lambda: bool(self.limits[self.endpoint]))
                long = threads.submit(lock.acquire)
                self.assert_unreachable(short.result)
            long.result().release()

    def test_a_timeout_includes_waiting_for_another_thread_that_finds_the_node(self) -> None:
        # Another thread never finds it.
        busy = mock.Mock()
        busy.acquire.return_value = False
        with found(MUTUA_SOCKET=self.socket), mock.patch.object(_client, "_default_mutex", busy):
            for timeout in (0, 5):
                self.assert_unreachable(mutua.lock("x", timeout=timeout).acquire)
        self.assertEqual(busy.acquire.mock_calls, [mock.call(timeout=1), mock.call(timeout=5)])

    def test_a_request_that_does_not_wait_ends_when_its_node_is_silent(self) -> None:
        with mutua.Client(self.endpoint, ttl=NEVER) as client, client.lock("y") as guard:
            with self.cluster.stopped(0):
                self.assert_unreachable(client.lock("x", timeout=0).acquire)
                # Nothing but the request has ended: the lease lasts for minutes.
                self.assertFalse(guard.lost)
            # The node may have granted it; then it is released.
            with client.lock("x", timeout=30), mutua.Client(self.endpoint) as other:
                with self.assertRaises(mutua.NotAcquiredError):
                    other.lock("x").acquire(timeout=0)
            with mutua.Client(self.endpoint) as other:
                other.lock("x").acquire(timeout=30).release()

    def test_a_request_that_does_not_wait_ends_when_its_node_is_lost(self) -> None:
        with mutua.Client(self.endpoint, ttl=NEVER, unreachable_after=NEVER) as client:
            guard = client.lock("y").acquire()
            self.cluster.kill(0)
            self.assert_unreachable(client.lock("x", timeout=0).acquire)
            self.assertFalse(guard.lost, "the lease lasts for minutes")
            # There the client closes its session, which it would go on trying to do.
            self.cluster.start(0)


class Messages(Finding):
    def test_a_configuration_with_an_unknown_key_is_named(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            file = Path(directory) / "a.toml"
            file.write_text('clustr = "shop"\nnode = "a"\n')
            with found(MUTUA_CONFIG=str(file)):
                says = f"{re.escape(str(file))}.* unknown key `clustr`.*`cluster`"
                with self.assertRaisesRegex(mutua.ConfigError, says), mutua.Client():
                    pass

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
        with self.assertRaises(mutua.UnreachableError) as refused, mutua.Client(endpoint):
            pass
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

    def test_another_service_is_no_node(self) -> None:
        with http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler) as server:
            self.enterContext(mock.patch.object(server, "handle_error"))
            threading.Thread(target=server.serve_forever, daemon=True).start()
            self.addCleanup(server.shutdown)
            port = server.server_address[1]
            says = self.refused(f"127.0.0.1:{port}")
            self.assertIn("is not a node of Mutua", says)
            self.assertNotIn("member", says)

    def test_a_node_that_does_not_run_is_named_once(self) -> None:
        with tempfile.TemporaryDirectory() as directory, found(MUTUA_SOCKET=f"{directory}/a.sock"):
            with self.assertRaises(mutua.UnreachableError) as refused:
                mutua.lock("x").acquire()
        says = str(refused.exception)
        self.assertEqual(says.count(directory), 1)
        self.assertRegex(says, "no node runs at unix:.*: start one with `mutua node`")

    def certificates(self, directory: str, host: str = "127.0.0.1") -> None:
        """A CA, and the certificates of a node and of the clients `me` and `you`."""
        for words in (["init"], ["node", "a", "--host", host], ["client", "me"], ["client", "you"]):
            command = [MUTUA, "cert", "--directory", directory, *words]
            subprocess.run(command, check=True, capture_output=True)

    def test_what_is_wrong_with_a_certificate_is_named(self) -> None:
        port = free_port()
        with tempfile.TemporaryDirectory() as good, tempfile.TemporaryDirectory() as bad:
            self.certificates(good)
            self.certificates(bad)
            tls = f'[tls]\nca = "{good}/ca.crt"\ncert = "{good}/a.crt"\nkey = "{good}/a.key"\n'
            cluster = Cluster(1, "--listen", f"127.0.0.1:{port}", tail=tls)
            self.addCleanup(cluster.close)
            me = {"MUTUA_CA": f"{good}/ca.crt", "MUTUA_CERT": f"{good}/me.crt", "MUTUA_KEY": f"{good}/me.key"}
            cases: tuple[tuple[dict[str, str], type[mutua.Error], str], ...] = (
                ({"MUTUA_CA": f"{bad}/ca.crt"}, mutua.UnreachableError, "not of the CA that MUTUA_CA names"),
                (
                    {"MUTUA_CERT": f"{bad}/me.crt", "MUTUA_KEY": f"{bad}/me.key"},
                    mutua.UnreachableError,
                    "refuses the certificate that MUTUA_CERT names",
                ),
                ({"MUTUA_KEY": f"{good}/you.key"}, mutua.ConfigError, "you.key .*is not that of the certificate"),
                ({"MUTUA_CA": f"{good}/me.key"}, mutua.ConfigError, "MUTUA_CA: .* no certificate"),
                ({"MUTUA_KEY": f"{good}/me.crt"}, mutua.ConfigError, "MUTUA_KEY: .* no private key"),
            )
            for changed, error, says in cases:
                with self.subTest(says), mock.patch.dict(os.environ, me | changed):
                    with self.assertRaisesRegex(error, says):
                        mutua.Client(f"https://127.0.0.1:{port}").lock("x").acquire()
            # gRPC does not log either.
            text = "import mutua, sys; mutua.Client(sys.argv[1]).lock('x').acquire()"
            words = [sys.executable, "-c", text, f"https://127.0.0.1:{port}"]
            environment = {key: value for key, value in os.environ.items() if key != "GRPC_VERBOSITY"}
            for changed, _, says in cases[:2]:
                variables = environment | me | changed
                ended = subprocess.run(words, env=variables, capture_output=True, text=True)
                self.assertIn(says, ended.stderr)
                self.assertNotRegex(ended.stderr, "(?m)^[EIW][0-9]{4} ")
            # Nothing is served with TLS at the socket of another service, nor by a node without certificates.
            with mock.patch.dict(os.environ, me):
                plain = Cluster(1, "--listen", f"127.0.0.1:{(other := free_port())}")
                self.addCleanup(plain.close)
                self.assertIn("does not serve TLS", self.refused(f"https://127.0.0.1:{other}"))

    def test_a_node_that_serves_tls_needs_https(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            self.certificates(directory)
            port = free_port()
            tls = "".join(
                f'{key} = "{directory}/{file}"\n'
                for key, file in (("ca", "ca.crt"), ("cert", "a.crt"), ("key", "a.key"))
            )
            cluster = Cluster(1, "--listen", f"127.0.0.1:{port}", tail=f"[tls]\n{tls}")
            self.addCleanup(cluster.close)
            self.assertIn("serves TLS: use https://", self.refused(f"127.0.0.1:{port}"))
            names = {"MUTUA_CA": "ca.crt", "MUTUA_CERT": "me.crt", "MUTUA_KEY": "me.key"}
            files = {name: f"{directory}/{file}" for name, file in names.items()}
            with mock.patch.dict(os.environ, files):
                with mutua.Client(f"https://127.0.0.1:{port}") as client:
                    client.lock("x").acquire(timeout=30).release()


if __name__ == "__main__":
    unittest.main()
