"""Nodes as processes of their own, in a directory of the test."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import tempfile
import time
import tomllib
import unittest
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import mutua

MUTUA = os.environ.get("MUTUA", "mutua")

_given_ports: set[int] = set()


def wait_for(what: str, holds: Callable[[], bool]) -> None:
    """Waits until a condition holds, for half a minute at most."""
    deadline = time.monotonic() + 30
    while not holds():
        if time.monotonic() > deadline:
            raise AssertionError(f"timed out waiting for {what}")
        time.sleep(0.01)


def free_port() -> int:
    """A port at which nothing listens, each time another one, below those that the kernel gives to
    outgoing connections: one of these may be in use by the time a node listens there."""
    ephemeral = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    while True:
        port = random.randrange(10000, ephemeral)
        if port in _given_ports:
            continue
        try:
            socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue
        _given_ports.add(port)
        return port


def _is_stopped(pid: int) -> bool:
    """Whether all threads of a process are stopped, which they are some time after the signal."""
    states = [stat.read_text().rpartition(")")[2].split()[0] for stat in Path(f"/proc/{pid}/task").glob("*/stat")]
    return all(state == "T" for state in states)


class Cluster:
    """So many nodes, which grant when this has been made. `options` are those of
    `mutua node`, `tail` the last lines of each configuration."""

    def __init__(self, count: int, *options: str, tail: str = "") -> None:
        self._options = options
        self._directory = tempfile.TemporaryDirectory()
        self.path = Path(self._directory.name)
        names = "abc"[:count]
        members = "".join(
            f'[[members]]\nname = "{name}"\naddress = "127.0.0.1:{free_port()}"\n'
            for name in names
        )
        self.processes: list[subprocess.Popen[bytes] | None] = []
        for name in names:
            text = f'cluster = "test"\nnode = "{name}"\ndata = "{name}"\n{members}{tail}'
            (self.path / f"{name}.toml").write_text(text)
            self.processes.append(None)
        for index in range(count):
            self.run(index)
        wait_for("the nodes to grant", lambda: all(map(self._grants, range(count))))

    def start(self, index: int) -> None:
        """Runs a node that was killed, and waits until it grants."""
        self.run(index)
        wait_for("the node to grant", lambda: self._grants(index))

    def address(self, index: int) -> str:
        """The address for the other members."""
        members = tomllib.loads(self.config(index).read_text())["members"]
        return str(members[index]["address"])

    def config(self, index: int) -> Path:
        return self.path / f"{'abc'[index]}.toml"

    def endpoint(self, index: int) -> str:
        return f"unix:{self.path / 'abc'[index] / 'locks.sock'}"

    def run(self, index: int) -> None:
        config = str(self.config(index))
        command = [MUTUA, "node", "--quiet", "--config", config, *self._options]
        self.processes[index] = subprocess.Popen(command, stdin=subprocess.DEVNULL)

    def _grants(self, index: int) -> bool:
        listed = self.mutua("ls", index)
        return listed.returncode == 0 and "suspended" not in listed.stderr and self._listens(index)

    def _listens(self, index: int) -> bool:
        """Whether the path of the socket and the address of `--listen`, if there is one, are served. Commands find
        a node by its kernel name too, which is served before them."""
        try:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.connect(self.endpoint(index).removeprefix("unix:"))
        except OSError:
            return False
        if "--listen" not in self._options:
            return True
        host, _, port = self._options[self._options.index("--listen") + 1].rpartition(":")
        try:
            socket.create_connection((host, int(port))).close()
        except OSError:
            return False
        return True

    def mutua(self, command: str, index: int, *rest: str) -> subprocess.CompletedProcess[str]:
        words = [MUTUA, command, "--endpoint", self.endpoint(index), *rest]
        return subprocess.run(words, capture_output=True, text=True, stdin=subprocess.DEVNULL)

    def is_free(self, index: int, name: str) -> bool:
        """Whether `mutua lock -n` gets the lock."""
        return self.mutua("lock", index, "-n", name, "--", "true").returncode == 0

    @contextmanager
    def stopped(self, index: int) -> Iterator[None]:
        """The node is suspended for the block: it accepts connections, and does not answer."""
        process = self.processes[index]
        assert process is not None
        process.send_signal(signal.SIGSTOP)
        try:
            wait_for("the node to stop", lambda: _is_stopped(process.pid))
            yield
        finally:
            process.send_signal(signal.SIGCONT)

    def kill(self, index: int) -> None:
        process = self.processes[index]
        if process is not None:
            process.kill()
            process.wait()
            self.processes[index] = None

    def close(self) -> None:
        for index in range(len(self.processes)):
            self.kill(index)
        self._directory.cleanup()


class AtOneNode(unittest.TestCase):
    """Tests that share a node in no cluster; each uses names of its own."""

    cluster: Cluster

    @classmethod
    def setUpClass(cls) -> None:
        cls.cluster = Cluster(1)
        cls.addClassCleanup(cls.cluster.close)

    def client(self, **options: object) -> mutua.Client:
        """A connected client, which is closed at the end of the test."""
        client = mutua.Client(self.cluster.endpoint(0), **options)  # type: ignore[arg-type]
        return self.enterContext(client)
