"""Wildcards of settings and of queue addresses."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.model.matching import (
    SecurityRepository,
    Wildcards,
    is_wildcard,
    matches_binding,
)

WILDCARDS = Wildcards()
NAMES = st.lists(st.sampled_from(["a", "b", "ab", ""]), min_size=1, max_size=5).map(".".join)
PATTERNS = st.lists(st.sampled_from(["a", "b", "*", "#", "a*"]), min_size=1, max_size=5).map(".".join)


def oracle(words: list[str], names: list[str]) -> bool:
    """The definition of a binding's wildcards, without any cleverness."""
    if not words:
        return not names
    if words[0] == "#":
        return any(oracle(words[1:], names[skipped:]) for skipped in range(len(names) + 1))
    return bool(names) and (words[0] == names[0] or (words[0] == "*" and names[0] != "")) and oracle(words[1:], names[1:])


class BindingTests(SynchronousTestCase):
    def test_manual(self) -> None:
        """The examples of the Artemis manual's chapter on wildcard syntax."""
        for pattern, matching, others in (
            ("news.europe.#", ["news.europe", "news.europe.sport", "news.europe.politics.regional"], ["news.usa", "news.europeX"]),
            ("news.*", ["news.europe"], ["news", "news.europe.sport"]),
            ("news.*.sport", ["news.europe.sport"], ["news.sport", "news.europe.politics"]),
            ("#", ["news", "a.b.c"], []),
            ("a.#.z", ["a.z", "a.b.z", "a.b.c.z"], ["a", "a.z.b"]),
            ("new*", ["new*"], ["news"]),
        ):
            for address in matching:
                self.assertTrue(matches_binding(pattern, address, WILDCARDS), (pattern, address))
            for address in others:
                self.assertFalse(matches_binding(pattern, address, WILDCARDS), (pattern, address))

    def test_other_characters(self) -> None:
        wildcards = Wildcards(delimiter="/", any_words=">", single_word="+")
        self.assertTrue(matches_binding("a/+/>", "a/b/c/d", wildcards))
        self.assertFalse(matches_binding("a.*.#", "a.b.c", wildcards))

    def test_switched_off(self) -> None:
        wildcards = Wildcards(routing_enabled=False)
        self.assertFalse(is_wildcard("a.#", wildcards))
        self.assertFalse(matches_binding("a.#", "a.b", wildcards))
        self.assertTrue(matches_binding("a.#", "a.#", wildcards))

    def test_only_whole_words_are_wildcards(self) -> None:
        self.assertTrue(is_wildcard("a.*", WILDCARDS))
        self.assertTrue(is_wildcard("#", WILDCARDS))
        self.assertFalse(is_wildcard("a.b*", WILDCARDS))
        self.assertFalse(is_wildcard("a.\\*", WILDCARDS))

    @given(PATTERNS, NAMES)
    def test_agrees_with_the_definition(self, pattern: str, address: str) -> None:
        expected = pattern == address or (is_wildcard(pattern, WILDCARDS) and oracle(pattern.split("."), address.split(".")))
        self.assertEqual(matches_binding(pattern, address, WILDCARDS), expected)

    def test_many_wildcards_take_no_time(self) -> None:
        """A client chooses the pattern: a nasty one must not keep the broker busy."""
        pattern, address = ".".join(["#", "a"] * 200), ".".join(["a"] * 2000 + ["b"])
        self.assertFalse(matches_binding(pattern, address, WILDCARDS))


class SecurityTests(SynchronousTestCase):
    def repository(self) -> SecurityRepository:
        return SecurityRepository(
            settings={
                "#": {"send": frozenset({"all"}), "consume": frozenset({"all"})},
                "a.#": {"send": frozenset({"some"})},
                "a.b::q": {"consume": frozenset({"one"})},
                "a.b.old": {"consume": frozenset({"older"}), "send": frozenset({"older"})},
            }
        )

    def test_only_the_most_specific_match_counts(self) -> None:
        self.assertEqual(self.repository().lookup("a.b"), {"send": {"some"}})
        self.assertEqual(self.repository().lookup("b"), {"send": {"all"}, "consume": {"all"}})

    def test_without_a_match_nobody_is_allowed(self) -> None:
        self.assertEqual(SecurityRepository().lookup("a"), {})

    def test_a_queue_may_have_its_own(self) -> None:
        self.assertEqual(self.repository().lookup("a.b::q"), {"consume": {"one"}})
        self.assertEqual(self.repository().lookup("a.b::other"), {"send": {"some"}})

    def test_older_spelling_decides_consume_and_browse_only(self) -> None:
        self.assertEqual(self.repository().lookup("a.b::old"), {"send": {"some"}, "consume": {"older"}, "browse": frozenset()})

    def test_answers_cannot_be_spoilt(self) -> None:
        repository = self.repository()
        repository.lookup("a.b")["send"] = frozenset()
        self.assertEqual(repository.lookup("a.b"), {"send": {"some"}})

    def test_changes(self) -> None:
        repository = self.repository()
        repository.lookup("b")
        version = repository.version
        repository.swap({"b": {"send": frozenset({"new"})}})
        self.assertEqual(repository.lookup("b"), {"send": {"new"}})
        self.assertGreater(repository.version, version)
