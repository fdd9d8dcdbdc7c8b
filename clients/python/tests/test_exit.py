"""What a program has released is free when it has ended. MUTUA is the binary."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
import unittest

import mutua
from nodes import Cluster, free_port, wait_for

#: Longer than any test: nothing is free because a lease expires.
TTL = 300
HEAD = (
    "import asyncio, atexit, multiprocessing, os, sys, threading, time, mutua\n"
    f"client = mutua.Client(sys.argv[1], ttl={TTL})\n"
)
#: How programs end, by what they do. The name of the lock is `sys.argv[2]`.
ENDS = {
    "end": "with client.lock(sys.argv[2]): pass",
    "exit": "with client.lock(sys.argv[2]): sys.exit(3)",
    "exception": "with client.lock(sys.argv[2]): raise OSError",
    "release": "client.lock(sys.argv[2]).acquire().release()",
    "close": "guard = client.lock(sys.argv[2]).acquire(); client.close(); os._exit(0)",
    "with": "with client:\n    with client.lock(sys.argv[2]): pass\nos._exit(0)",
    "held": "guard = client.lock(sys.argv[2]).acquire()",
    # What is done when a lock is lost is not done at the end of the program.
    "on_lost": (
        "guard = client.lock(sys.argv[2]).acquire()\n"
        "guard.on_lost(lambda why: os._exit(5))\n"
        "threading.Thread(target=lambda: (guard.wait_lost(), os._exit(6)), daemon=True).start()"
    ),
    "resign": "with client.election(sys.argv[2]).campaign('a'): pass",
    "asyncio": (
        "async def main():\n"
        "    async with client.lock(sys.argv[2]): pass\n"
        "asyncio.run(main())"
    ),
    "close_async": (
        "async def main():\n"
        "    guard = await client.lock(sys.argv[2]).acquire_async()\n"
        "    await client.close_async()\n"
        "    os._exit(0)\n"
        "asyncio.run(main())"
    ),
    "default": "os.environ['MUTUA_SOCKET'] = sys.argv[3]\nwith mutua.lock(sys.argv[2]): pass",
    # Its end does not call what `atexit` has.
    "multiprocessing": (
        "def work():\n"
        "    with client.lock(sys.argv[2]): pass\n"
        "child = multiprocessing.get_context('fork').Process(target=work)\n"
        "child.start(); child.join()"
    ),
    # The interpreter waits for threads that are no daemons: their locks last until then.
    "thread": (
        "guard = client.lock(sys.argv[2]).acquire()\n"
        "def work():\n"
        "    threading.main_thread().join()\n"
        "    time.sleep(0.2)\n"
        "    guard.check()\n"
        "    guard.release()\n"
        "    print('kept')\n"
        "threading.Thread(target=work).start()"
    ),
    "handler": (
        "guard = client.lock(sys.argv[2]).acquire()\n"
        "atexit.register(lambda: (guard.check(), guard.release(), print('kept')))"
    ),
}


class Ends(unittest.TestCase):
    """At the ends of programs, over TCP and over the Unix socket."""

    cluster: Cluster
    address: str

    @classmethod
    def setUpClass(cls) -> None:
        cls.address = f"127.0.0.1:{free_port()}"
        cls.cluster = Cluster(1, "--listen", cls.address)
        cls.addClassCleanup(cls.cluster.close)

    def program(self, endpoint: str, text: str, name: str) -> subprocess.Popen[str]:
        socket = self.cluster.endpoint(0).removeprefix("unix:")
        words = [sys.executable, "-c", HEAD + text, endpoint, name, socket]
        return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def test_a_program_that_has_ended_holds_nothing(self) -> None:
        with mutua.Client(self.address) as other:
            # Without a flush, not every release is lost, least of all at the socket.
            for endpoint, turns in ((self.address, 2), (self.cluster.endpoint(0), 1)):
                for end, text in ENDS.items():
                    for turn in range(turns):
                        with self.subTest(endpoint=endpoint, end=end, turn=turn):
                            name = f"{endpoint} {end} {turn}"
                            with self.program(endpoint, text, name) as program:
                                out, error = program.communicate(timeout=60)
                            self.assertEqual(program.returncode, {"exit": 3, "exception": 1}.get(end, 0))
                            if end == "exception":
                                self.assertIn("OSError", error)
                            else:
                                self.assertEqual(error, "")
                            if end in ("thread", "handler"):
                                self.assertEqual(out, "kept\n")
                            try:
                                other.lock(name).acquire(timeout=10).release()
                            except mutua.NotAcquiredError:
                                self.fail("it is held")

    def test_a_program_that_waited_leaves_the_queue(self) -> None:
        texts = (
            "threading.Thread(target=client.lock(sys.argv[2]).acquire, daemon=True).start(); time.sleep(0.3)",
            "try: client.lock(sys.argv[2], timeout=0.05).acquire()\nexcept mutua.NotAcquiredError: pass",
        )
        with mutua.Client(self.address, ttl=TTL) as client:
            for index, text in enumerate(texts):
                name = f"{self.id()} {index}"
                held = client.lock(name).acquire()
                with self.program(self.address, text, name) as program:
                    self.assertEqual(program.communicate(timeout=60)[1], "")
                held.release()
                client.lock(name).acquire(timeout=30).release()
                with mutua.Client(self.address) as other:
                    other.lock(name).acquire(timeout=30).release()

    def test_a_program_ends_although_its_node_is_silent(self) -> None:
        text = (
            "guard = client.lock(sys.argv[2]).acquire()\n"
            "print('held', flush=True)\n"
            "sys.stdin.read()"
        )
        words = [sys.executable, "-c", HEAD + text, self.address, self.id()]
        with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:
            assert program.stdin and program.stdout
            program.stdout.readline()
            with self.cluster.stopped(0):
                program.stdin.close()
                self.assertEqual(program.wait(60), 0)


class Closing(unittest.TestCase):
    def test_a_node_that_is_lost_does_not_stop_close(self) -> None:
        cluster = Cluster(1)
        self.addCleanup(cluster.close)
        client = mutua.Client(cluster.endpoint(0), ttl=TTL)
        guard = client.lock("x").acquire()
        cluster.kill(0)
        began = time.monotonic()
        client.close()
        self.assertLess(time.monotonic() - began, 30)
        self.assertTrue(guard.lost)
        # Nothing is waited for again.
        asyncio.run(client.close_async())
        cluster.start(0)
        wait_for("the close", lambda: cluster.is_free(0, "x"))


if __name__ == "__main__":
    unittest.main()
