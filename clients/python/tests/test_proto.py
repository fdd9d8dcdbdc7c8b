"""The generated messages are those of the protocol's present definition."""

import pathlib
import re
import unittest
from collections import Counter

from mutua._proto import locks_pb2

PROTO = pathlib.Path(__file__).parents[3] / "crates/client/proto/mutua/v1/locks.proto"


def numbered(message):
    """The fields and enumerated values of a message and of those in it, with their numbers."""
    yield from ((field.name, field.number) for field in message.fields)
    for enum in message.enum_types:
        yield from ((value.name, value.number) for value in enum.values)
    for nested in message.nested_types:
        if not nested.GetOptions().map_entry:
            yield from numbered(nested)


class Generated(unittest.TestCase):
    def test_nothing_is_missing_or_left_over(self):
        text = re.sub(r"//.*", "", PROTO.read_text())
        written = Counter((name, int(number)) for name, number in re.findall(r"(\w+) = (\d+);", text))
        file = locks_pb2.DESCRIPTOR
        generated = Counter(
            pair for message in file.message_types_by_name.values() for pair in numbered(message)
        )
        for enum in file.enum_types_by_name.values():
            generated.update((value.name, value.number) for value in enum.values)
        self.assertEqual(written, generated, "run clients/python/generate")
