"""Invalid arguments are refused at once, with what is wrong."""

from __future__ import annotations

import asyncio
import unittest
from typing import Any

import mutua
from nodes import AtOneNode

#: No text and no bytes. Some of them would become other bytes, such as `bytes(5)`.
NOT_TEXT: tuple[Any, ...] = (5, True, None, ["a"], 1.5, "a\ud800")
NOT_SECONDS: tuple[Any, ...] = (-1, -0.1, "abc", float("nan"), [1], True)


class Arguments(AtOneNode):
    def setUp(self) -> None:
        self.one = self.client()

    def test_a_name_is_text_or_bytes(self) -> None:
        for name in NOT_TEXT:
            for make in (mutua.lock, self.one.lock, self.one.election):
                with self.subTest(name=name, make=make):
                    with self.assertRaisesRegex(mutua.ConfigError, "invalid name .*: .*use"):
                        make(name)
        with self.assertRaisesRegex(mutua.ConfigError, "invalid name 5: .*'5'"):
            mutua.lock(5)  # type: ignore[arg-type]
        for same in (bytearray(b"x"), memoryview(b"x"), "x"):
            self.assertEqual(self.one.lock(same).name, b"x")  # type: ignore[arg-type]

    def test_a_value_is_text_or_bytes(self) -> None:
        election = self.one.election(self.id())
        for value in NOT_TEXT:
            with self.subTest(value=value):
                with self.assertRaisesRegex(mutua.ConfigError, "invalid value .*: .*use"):
                    election.campaign(value)
                with self.assertRaisesRegex(mutua.ConfigError, "invalid value"):
                    asyncio.run(election.campaign_async(value))
        self.assertIsNone(election.leader())
        with election.campaign("good") as leads:
            for value in NOT_TEXT:
                with self.assertRaisesRegex(mutua.ConfigError, "invalid value"):
                    leads.proclaim(value)
            leader = election.leader()
            assert leader is not None
            self.assertEqual(leader.value, b"good")

    def test_a_name_and_a_value_have_limits(self) -> None:
        for name in ("x" * 4097, b"x" * 5_000_000):
            for make in (mutua.lock, self.one.lock, self.one.election):
                with self.assertRaisesRegex(ValueError, "invalid name .*at most 4096"):
                    make(name)
        election, longest = self.one.election("n" * 4096), 3 << 20
        for value in ("é" * (longest // 2 + 1), b"v" * 5_000_000):
            with self.assertRaisesRegex(ValueError, f"invalid value .*at most {longest}"):
                election.campaign(value, timeout=30)
            with self.assertRaisesRegex(ValueError, f"invalid value .*at most {longest}"):
                asyncio.run(election.campaign_async(value, timeout=30))
        # The longest ones are served.
        with election.campaign(b"v" * longest, timeout=60) as leads:
            with self.assertRaisesRegex(ValueError, f"invalid value .*at most {longest}"):
                leads.proclaim(b"v" * (longest + 1))
            leads.proclaim(b"w" * longest)
            leader = election.leader()
            assert leader is not None
            self.assertEqual(leader.value, b"w" * longest)

    def test_the_settings_of_a_client_have_their_types(self) -> None:
        settings: tuple[dict[str, Any], ...] = (
            {"owner": 5}, {"owner": "a\ud800"}, {"cluster": 5}, {"ttl": 0.5}, {"ttl": True},
            {"unreachable_after": "10"}, {"unreachable_after": 0},
            {"unreachable_after": float("nan")},
        )
        for setting in settings:
            with self.subTest(setting), self.assertRaisesRegex(mutua.ConfigError, "invalid"):
                mutua.Client(self.cluster.endpoint(0), **setting)
        endpoints: tuple[Any, ...] = (5, [5], [None], b"unix:/x")
        for endpoint in endpoints:
            with self.subTest(endpoint), self.assertRaisesRegex(mutua.ConfigError, "invalid endpoint"):
                mutua.Client(endpoint)

    def test_a_timeout_is_a_number_of_seconds(self) -> None:
        lock, election = self.one.lock(self.id()), self.one.election(self.id())
        for timeout in NOT_SECONDS:
            calls = (
                lambda: mutua.lock("x", timeout=timeout),
                lambda: self.one.lock("x", timeout=timeout),
                lambda: lock.acquire(timeout=timeout),
                lambda: asyncio.run(lock.acquire_async(timeout=timeout)),
                lambda: election.campaign("x", timeout=timeout),
                lambda: mutua.Client(self.cluster.endpoint(0), timeout=timeout),
            )
            for index, call in enumerate(calls):
                with self.subTest(timeout=timeout, call=index):
                    with self.assertRaisesRegex(mutua.ConfigError, "invalid timeout"):
                        call()
        # As good as for ever, and more than fits into the request.
        for long in (float("inf"), 1e300, 10**400):
            lock.acquire(timeout=long).release()

    def test_the_timeout_of_a_lock_is_that_of_each_acquire(self) -> None:
        name = self.id()
        waits, other = self.one.lock(name, timeout=0.1), self.client()
        held = self.client().lock(name).acquire()
        for acquire in (waits.acquire, waits.__enter__):
            with self.assertRaises(mutua.NotAcquiredError):
                acquire()
        with self.assertRaises(mutua.NotAcquiredError):
            asyncio.run(waits.acquire_async())
        # The node refuses at once, which it says in other words than the end of a wait.
        with self.assertRaisesRegex(mutua.NotAcquiredError, "held or has waiters"):
            self.one.lock(name, timeout=60).acquire(timeout=0)

        async def for_ever() -> None:
            waiter = asyncio.create_task(waits.acquire_async(timeout=None))
            with self.assertRaises(mutua.NotAcquiredError):
                await other.lock(name, timeout=1).acquire_async()
            # Ten times the timeout of the lock has passed, and it still waits.
            held.release()
            (await waiter).release()

        asyncio.run(for_ever())


if __name__ == "__main__":
    unittest.main()
