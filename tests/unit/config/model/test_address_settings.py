"""Which address settings hold for an address."""

from __future__ import annotations

import re

from hypothesis import example, given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.model.address_settings import AddressSettings
from mqbroker.config.model.matching import (
    CACHED_NAMES_MAX,
    AddressSettingsRepository,
    Wildcards,
)
from tests.unit.config.model.test_matching import NAMES, PATTERNS


class AddressSettingsTests(SynchronousTestCase):
    def repository(self, **partials: int) -> AddressSettingsRepository:
        return AddressSettingsRepository(settings={match: {"redelivery_delay": value} for match, value in partials.items()})

    def delay(self, matches: list[str], name: str, wildcards: Wildcards | None = None) -> int:
        """Which of ``matches`` wins for ``name``: its position, or -1."""
        settings = {match: {"redelivery_delay": position} for position, match in enumerate(matches)}
        repository = AddressSettingsRepository(wildcards, defaults=AddressSettings(redelivery_delay=-1), settings=settings)
        return repository.lookup(name).redelivery_delay

    def test_most_specific_first(self) -> None:
        for matches, name in (
            (["a.b", "a.*", "a.#", "#"], "a.b"),
            (["a.*", "a.#", "#"], "a.b"),
            (["a.b.#", "a.#", "#"], "a.b.c"),
            (["a.b.*", "a.*.c"], "a.b.c"),
            (["a.*.c", "*.b.c"], "a.b.c"),
            (["*", "#"], "a"),
        ):
            with self.subTest(matches=matches):
                self.assertEqual(self.delay(matches, name), 0)
                self.assertEqual(self.delay(matches[::-1], name), len(matches) - 1)

    def test_star_stands_anywhere_in_a_word(self) -> None:
        self.assertEqual(self.delay(["new*"], "news"), 0)
        self.assertEqual(self.delay(["new*"], "new"), -1)
        self.assertEqual(self.delay(["new*"], "news.europe"), -1)

    def test_hash_takes_the_delimiter_before_it(self) -> None:
        for match in ("news.#", "news#"):
            self.assertEqual(self.delay([match], "news"), 0)
            self.assertEqual(self.delay([match], "news.a.b"), 0)
            self.assertEqual(self.delay([match], "newsX"), -1)

    def test_other_characters_are_literal(self) -> None:
        self.assertEqual(self.delay(["a+b.*"], "a+b.c"), 0)
        self.assertEqual(self.delay(["a+b.*"], "aab.c"), -1)
        self.assertEqual(self.delay(["a/>"], "a/b/c", Wildcards("/", ">", "+")), 0)
        self.assertEqual(self.delay(["a.b$c"], "aXb$c"), -1)

    def test_hash_only_at_the_end(self) -> None:
        repository = AddressSettingsRepository()
        self.assertIn("AMQ229071", str(self.assertRaises(ValueError, repository.set, "a.#.b", {})))
        self.assertRaises(ValueError, repository.set, "", {})

    def test_fields_are_merged(self) -> None:
        """What the specific match leaves out comes from the general one; None does not cover anything."""
        repository = AddressSettingsRepository(
            settings={
                "#": {"dead_letter_address": "DLQ", "max_delivery_attempts": 5, "redelivery_delay": 1},
                "a.#": {"max_delivery_attempts": 7, "dead_letter_address": None},
                "a.b": {"redelivery_delay": 0},
            }
        )
        found = repository.lookup("a.b")
        self.assertEqual((found.dead_letter_address, found.max_delivery_attempts, found.redelivery_delay), ("DLQ", 7, 0))

    def test_literal_markers(self) -> None:
        """A match in markers is for that one name, even if it looks like a pattern; it comes after the very text."""
        repository = AddressSettingsRepository(
            literal_markers="()", settings={"(a.#)": {"redelivery_delay": 1}, "a.#": {"redelivery_delay": 2}, "#": {"redelivery_delay": 3}}
        )
        self.assertEqual([repository.lookup(name).redelivery_delay for name in ("a.#", "a.b", "b")], [2, 2, 3])
        repository.remove("a.#")
        self.assertEqual([repository.lookup(name).redelivery_delay for name in ("a.#", "a.b")], [1, 3])

    def test_fully_qualified_names_use_the_address(self) -> None:
        self.assertEqual(self.repository(a=4).lookup("a::q").redelivery_delay, 4)

    def test_addresses_with_the_same_matches_share_their_settings(self) -> None:
        """Each temporary queue has a name of its own, and an object for each would fill the memory."""
        repository = AddressSettingsRepository(settings={"#": {"redelivery_delay": 1}, "a.#": {"redelivery_delay": 2}})
        self.assertIs(repository.lookup("temporary-1"), repository.lookup("temporary-2"))
        self.assertIs(repository.lookup("a.1"), repository.lookup("a.2"))
        self.assertEqual([repository.lookup(name).redelivery_delay for name in ("b", "a.1")], [1, 2])
        repository.set("a.#", {"redelivery_delay": 3})
        self.assertEqual([repository.lookup(name).redelivery_delay for name in ("b", "a.1", "a.2")], [1, 3, 3])

    def test_changes_take_effect_and_raise_the_version(self) -> None:
        repository = self.repository(a=1)
        versions = [repository.version]
        self.assertEqual(repository.lookup("a").redelivery_delay, 1)
        repository.set("a", {"redelivery_delay": 2})
        versions.append(repository.version)
        self.assertEqual(repository.lookup("a").redelivery_delay, 2)
        self.assertTrue(repository.remove("a"))
        versions.append(repository.version)
        self.assertEqual(repository.lookup("a").redelivery_delay, 0)
        repository.swap({"#": {"redelivery_delay": 9}})
        versions.append(repository.version)
        self.assertEqual(repository.lookup("a").redelivery_delay, 9)
        self.assertEqual(versions, sorted(set(versions)))
        self.assertFalse(repository.remove("nothing"))
        self.assertEqual(repository.version, versions[-1])

    def test_a_refused_swap_changes_nothing(self) -> None:
        repository = self.repository(a=1)
        version = repository.version
        several: list[dict[str, dict[str, int]]] = [{"b": {}, "#.c": {}}, {"b": {"no_such_field": 1}}]
        for bad in several:
            self.assertRaises(ValueError, repository.swap, bad)
        self.assertEqual((repository.version, set(repository.values())), (version, {"a"}))

    def test_defaults(self) -> None:
        repository = AddressSettingsRepository(defaults=AddressSettings(id_cache_size=7))
        self.assertEqual(repository.lookup("x").id_cache_size, 7)

    def test_derived_fields(self) -> None:
        general = {"page_size_bytes": 1000, "redelivery_delay": 5}
        repository = AddressSettingsRepository(settings={"#": general, "a": {"max_read_page_bytes": 7}})
        found = repository.lookup("b")
        self.assertEqual((found.max_read_page_bytes, found.prefetch_page_bytes, found.max_redelivery_delay), (2000, 2000, None))
        self.assertEqual(repository.lookup("a").prefetch_page_bytes, 7)

    def test_a_flood_of_names_does_not_fill_memory(self) -> None:
        repository = self.repository(a=1)
        for number in range(CACHED_NAMES_MAX + 10):
            repository.lookup(f"n{number}")
        self.assertLessEqual(len(repository._resolved), CACHED_NAMES_MAX)

    @example(["a.#", "a.*"], "a.a")
    @given(st.lists(PATTERNS.filter(lambda text: "#" not in text[:-1]), unique=True, max_size=6), NAMES)
    def test_agrees_with_plain_expressions(self, matches: list[str], name: str) -> None:
        """A match applies exactly when the regular expression that the manual describes does."""

        def applies(match: str) -> bool:
            if match == "#":
                return True
            open_ended = match.endswith("#")
            text = re.escape(match.removesuffix("#").removesuffix(".") if open_ended else match).replace(r"\*", r"[^.]+")
            return re.fullmatch(text + (r"(\..*)?" if open_ended else ""), name) is not None

        repository = AddressSettingsRepository(settings={match: {"dead_letter_address": match} for match in matches})
        candidates = [str(partial["dead_letter_address"]) for partial in repository.candidates(name)]
        self.assertEqual(sorted(candidates), sorted(match for match in matches if match == name or applies(match)))

    def test_settings_by_use_come_between_everything_and_what_is_more_specific(self) -> None:
        automatic = {"redelivery_delay": 5, "max_delivery_attempts": 5}
        repository = AddressSettingsRepository(
            settings={"#": {"redelivery_delay": 1, "max_delivery_attempts": 1, "max_redelivery_delay": 1}}
        )
        repository.set("a.#", {"redelivery_delay": 2})
        found = [repository.lookup(name, automatic) for name in ("b", "a.1")]
        self.assertEqual(
            [(each.redelivery_delay, each.max_delivery_attempts, each.max_redelivery_delay) for each in found], [(5, 5, 1), (2, 5, 1)]
        )
        self.assertEqual(repository.lookup("b").redelivery_delay, 1)
        self.assertIs(repository.lookup("b", automatic), repository.lookup("c", automatic))
        repository.remove("#")
        self.assertEqual(repository.lookup("b", automatic).redelivery_delay, 5)
