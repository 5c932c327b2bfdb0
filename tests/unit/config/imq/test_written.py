"""A changed property leaves the rest of its file alone."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.imq.written import with_property
from tests.unit.config.imq.support import listed

TEXT = "# comment\na = 1\nlong = one, \\\n   two\\\n\nb:2\n"


class WrittenTests(SynchronousTestCase):
    def test_a_new_property_comes_last(self) -> None:
        self.assertEqual(with_property(TEXT, "c", "3"), TEXT + "c=3\n")
        self.assertEqual(with_property("", "c", "3"), "c=3\n")
        self.assertEqual(with_property("a=1", "c", "3"), "a=1\nc=3\n")

    def test_one_that_is_there_is_replaced_with_its_continuation(self) -> None:
        self.assertEqual(with_property(TEXT, "a", "9"), TEXT.replace("a = 1", "a=9"))
        changed = with_property(TEXT, "long", "short")
        self.assertEqual((listed(changed), changed.splitlines()[0]), ({"a": "1", "long": "short", "b": "2"}, "# comment"))

    def test_the_last_of_several_counts(self) -> None:
        self.assertEqual(with_property("a=1\na=2\n", "a", "3"), "a=1\na=3\n")

    @given(st.text(st.characters(min_codepoint=1, max_codepoint=0x2000), max_size=20))
    def test_every_value_is_read_again(self, value: str) -> None:
        self.assertEqual(listed(with_property(TEXT, "b", value)), {"a": "1", "long": "one, two", "b": value})

    def test_only_ends_of_lines_end_lines(self) -> None:
        for character in ("\x0b", "\x0c", "\x1c", "\x85", "\u2028"):
            text = f"# one{character}two\na=1\nb=2\n"
            self.assertEqual(with_property(text, "a", "3"), text.replace("a=1", "a=3"))

    def test_a_new_property_does_not_go_on_with_the_last_one(self) -> None:
        self.assertEqual(listed(with_property("a=1,\\", "b", "2")), {"a": "1,", "b": "2"})
