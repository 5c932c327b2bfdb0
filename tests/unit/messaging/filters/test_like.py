"""LIKE against its definition."""

from __future__ import annotations

from unittest import TestCase

from hypothesis import given, settings
from hypothesis import strategies as st

from mqbroker.messaging.filters.like import LikePattern
from tests.unit.messaging.filters.test_compile import like


class LikeTests(TestCase):
    @settings(deadline=None, max_examples=500)
    @given(st.text("ab_%!", max_size=12), st.text("ab_%!", max_size=10))
    def test_agrees_with_the_definition(self, text: str, pattern: str) -> None:
        self.assertIs(LikePattern(pattern).matches(text), like(text, [(c, True) for c in pattern]))

    @settings(deadline=None, max_examples=500)
    @given(st.text("ab_%!", max_size=8), st.lists(st.tuples(st.sampled_from("ab_%!"), st.booleans()), max_size=8))
    def test_escape(self, text: str, parts: list[tuple[str, bool]]) -> None:
        """Escaped, the special characters and the escape character stand for themselves."""
        parts = [(c, special and c != "!") for c, special in parts]
        pattern = "".join(c if special or c not in "%_!" else "!" + c for c, special in parts)
        self.assertIs(LikePattern(pattern, "!").matches(text), like(text, parts))

    def test_escape_before_another_character_is_literal(self) -> None:
        self.assertTrue(LikePattern("a!b", "!").matches("a!b"))
        self.assertFalse(LikePattern("a!b", "!").matches("ab"))
        self.assertTrue(LikePattern("ab!", "!").matches("ab!"))
        self.assertTrue(LikePattern("a%%", "%").matches("a%"))

    def test_one_character_is_a_code_point(self) -> None:
        self.assertTrue(LikePattern("_").matches("😀"))
        self.assertTrue(LikePattern("a_b%").matches("a\nb\n"))

    def test_many_wildcards_on_long_texts(self) -> None:
        """These take for ever with a matcher that goes back and tries again."""
        text = "x" * 100_000
        for pattern, ending in (
            ("%x" * 20 + "%y", "y"),
            ("%x_" * 20 + "y%", "yz"),
            ("%" + "x_" * 500 + "y%", "yz"),
            ("_%" * 50 + "%y_%", "yz"),
        ):
            self.assertFalse(LikePattern(pattern).matches(text), pattern[:20])
            self.assertTrue(LikePattern(pattern).matches(text + ending), pattern[:20])
