"""Checks of what callers pass. Python converts too willingly: `bytes(5)` is five NUL bytes."""

from __future__ import annotations

import numbers
import reprlib

from ._errors import ConfigError

#: The longest time, in seconds: a century. What is longer need not fit into a message or a timer.
LONGEST = 3.2e9
#: The longest name, in bytes, as nodes allow.
LONGEST_NAME = 4096
#: The longest value, in bytes. A request has 4 MiB at most: a longer one ends the connection, and that again when it is
#: repeated. So has an answer to an observer, which also has the name, and the command line of the candidate.
LONGEST_VALUE = 3 << 20


def encoded(value: object, what: str) -> bytes:
    """A name or a value: bytes, or text as UTF-8."""
    limit = LONGEST_NAME if what == "name" else LONGEST_VALUE
    if isinstance(value, (bytes, bytearray, memoryview)):
        taken = bytes(value)
    else:
        taken = text(value, what, "text or bytes").encode()
    if len(taken) > limit:
        shown = reprlib.repr(value)
        raise ConfigError(f"invalid {what} {shown}: it has {len(taken)} bytes, at most {limit} are allowed")
    return taken


def text(value: object, what: str, use: str = "text") -> str:
    """Text that can be sent."""
    shown = reprlib.repr(value)
    if not isinstance(value, str):
        such = f", such as {str(value)!r}" if isinstance(value, numbers.Number) else ""
        kind = type(value).__name__
        raise ConfigError(f"invalid {what} {shown}: it is of type {kind}; use {use}{such}")
    try:
        value.encode()
    except UnicodeEncodeError:
        why = "it has half a surrogate pair, which UTF-8 cannot express"
        raise ConfigError(f"invalid {what} {shown}: {why}; use {use} without it") from None
    return value


def checked_timeout(value: object) -> float | None:
    """The limit on a wait; None is none."""
    return None if value is None else seconds(value, "timeout")


def seconds(value: object, what: str, least: float = 0) -> float:
    """A time, not longer than the longest one."""
    # True would be a second, and `threading.Lock.acquire(True)` means to wait.
    if isinstance(value, (int, float)) and not isinstance(value, bool) and value >= least:
        return float(min(value, LONGEST))
    shown = reprlib.repr(value)
    raise ConfigError(f"invalid {what} {shown}: use a number of seconds, at least {least}")
