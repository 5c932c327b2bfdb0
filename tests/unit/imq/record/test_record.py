"""The record against a model: a dictionary of definitions, changed by several brokers, followed by several members."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.model.cluster import DivertConfiguration
from mqbroker.imq.record.changes import Kind, Recorded, Wish, form_of, same, wish_of
from mqbroker.imq.record.followed import Life
from mqbroker.imq.record.record import FORMER_MAX, ChangeRecord
from mqbroker.messaging.administration.registrar import AddressDefinition, AddressSettingDefinition, Change
from mqbroker.messaging.queues.definitions import ANYCAST, QueueDefinition
from mqclient.errors import (
    AddressDoesNotExistError,
    AddressExistsError,
    DivertDoesNotExistError,
    IllegalStateError,
    MQError,
    QueueDoesNotExistError,
    QueueExistsError,
)
from tests.unit.imq.record.strategies import changes

ONE, TWO = "b1:7676", "b2:7676"
QUEUE = QueueDefinition("q", "a", ANYCAST)
DIVERT = DivertConfiguration("d", "a", ("b",))


def create(definition: Any = QUEUE) -> Wish:
    return wish_of(Change("create", definition))


def update(definition: Any = QUEUE) -> Wish:
    return wish_of(Change("update", definition))


def delete(definition: Any = QUEUE) -> Wish:
    return wish_of(Change("delete", definition))


def begun() -> ChangeRecord:
    return ChangeRecord.begin("g", ONE, 0)


class AppendTests(SynchronousTestCase):
    def test_a_life_lasts_until_the_removal(self) -> None:
        record = begun()
        for wish, life in (
            (create(), 2),
            (update(replace(QUEUE, max_consumers=1)), 2),
            (update(replace(QUEUE, max_consumers=2)), 2),
            (delete(), 5),
            (create(), 6),
            (update(replace(QUEUE, max_consumers=1)), 6),
        ):
            change = record.append(wish, ONE, 0, record.last).change
            assert change is not None
            self.assertEqual(change.life, life)

    def test_the_first_record_is_the_reset_record(self) -> None:
        [reset] = begun().changes
        self.assertEqual((reset.position, reset.kind, reset.form), (1, Kind.RESET, {"generation": "g", "former": []}))

    def test_changes_get_positions(self) -> None:
        record = begun()
        self.assertEqual(record.append(create(), ONE, 5, 1).position, 2)
        change = record.append(update(replace(QUEUE, max_consumers=1)), TWO, 6, 2).change
        assert change is not None
        self.assertEqual((change.position, change.origin, change.time_ms, change.name), (3, TWO, 6, "queue q"))
        self.assertEqual((record.last, len(record), record.slack), (3, 1, 1))

    def test_the_same_definition_of_two_brokers_is_one(self) -> None:
        record = begun()
        record.append(create(), ONE, 0, 1)
        self.assertEqual(record.append(create(replace(QUEUE, user="u")), TWO, 0, 1), (2, None))
        self.assertEqual(record.append(update(), TWO, 0, 2, deployed=True), (2, None))

    def test_a_different_one_is_refused_with_both_origins(self) -> None:
        for definition, other, error in (
            (QUEUE, replace(QUEUE, address="b"), QueueExistsError),
            (AddressDefinition("a", frozenset((0,))), AddressDefinition("a", frozenset((1,))), AddressExistsError),
            (DIVERT, None, IllegalStateError),
        ):
            record = begun()
            record.append(create(definition), ONE, 0, 1)
            other = other or replace(definition, address="elsewhere")  # type: ignore[type-var]
            found = self.assertRaises(error, record.append, create(other), TWO, 0, 1)
            self.assertIn(ONE, str(found))
            self.assertIn(TWO, str(found))
            self.assertEqual(record.last, 2)

    def test_a_file_changes_only_what_its_broker_has_defined(self) -> None:
        record = begun()
        record.append(create(), ONE, 0, 1)
        other = update(replace(QUEUE, max_consumers=1))
        self.assertRaises(QueueExistsError, record.append, other, TWO, 0, 2, deployed=True)
        self.assertEqual(record.append(other, ONE, 0, 2, deployed=True).position, 3)
        self.assertEqual(record.append(update(), TWO, 0, 3).position, 4)

    def test_what_is_away_is_deleted_once(self) -> None:
        record = begun()
        self.assertEqual(record.append(delete(), ONE, 0, 1), (1, None))
        record.append(create(), ONE, 0, 1)
        self.assertEqual(record.append(delete(), ONE, 0, 2).position, 3)
        record.append(create(replace(QUEUE, name="other")), ONE, 0, 3)
        self.assertEqual(record.append(delete(), TWO, 0, 2), (3, None))

    def test_an_update_of_what_another_broker_has_removed_is_refused(self) -> None:
        for definition, error in (
            (QUEUE, QueueDoesNotExistError),
            (AddressDefinition("a", frozenset((0,))), AddressDoesNotExistError),
            (DIVERT, DivertDoesNotExistError),
            (AddressSettingDefinition("a.#", "{}"), IllegalStateError),
        ):
            record = begun()
            record.append(create(definition), ONE, 0, 1)
            record.append(delete(definition), ONE, 0, 2)
            self.assertRaises(error, record.append, update(definition), TWO, 0, 2)
            self.assertEqual(record.append(update(definition), TWO, 0, 3).position, 4)

    def test_so_is_one_after_the_removal_was_dropped(self) -> None:
        record = begun()
        record.append(create(), ONE, 0, 1)
        record.append(delete(), ONE, 0, 2)
        record.append(create(replace(QUEUE, name="other")), ONE, 0, 3)
        record.compress()
        self.assertRaises(QueueDoesNotExistError, record.append, update(), TWO, 0, 2)
        self.assertEqual(record.append(update(), TWO, 0, 4).position, 5)

    def test_an_address_takes_its_queues_along(self) -> None:
        record = begun()
        address = AddressDefinition("a", frozenset((ANYCAST,)))
        for definition in (address, QUEUE, replace(QUEUE, name="elsewhere", address="b")):
            record.append(create(definition), ONE, 0, record.last)
        record.append(delete(address), ONE, 0, record.last)
        self.assertEqual([change.name for change in record.definitions], ["queue elsewhere"])


class LoadTests(SynchronousTestCase):
    def test_what_is_no_record(self) -> None:
        [reset] = begun().changes
        change = begun().append(create(), ONE, 0, 1).change
        assert change is not None
        for listed in ([], [change], [reset, reset], [reset, change, change], [reset, change, replace(reset, position=3)]):
            with self.assertRaises(ValueError):
                ChangeRecord.load(listed)

    def test_a_record_without_its_latest_change_gives_no_position_twice(self) -> None:
        record = begun()
        record.append(create(), ONE, 0, 1)
        record.append(delete(), ONE, 0, 2)
        self.assertEqual(record.compress(), [2])
        loaded = ChangeRecord.load(record.changes)
        self.assertEqual((loaded.last, loaded.floor), (3, 2))
        self.assertEqual(loaded.append(create(), ONE, 0, 3).position, 4)


class MemberTests(SynchronousTestCase):
    def filled(self) -> ChangeRecord:
        record = begun()
        for number in range(5):
            record.append(create(replace(QUEUE, name=f"q{number}")), ONE, 0, record.last)
        return record

    def test_who_follows_gets_what_he_lacks(self) -> None:
        page = self.filled().since("g", 4)
        self.assertEqual((page.reset, [change.position for change in page.changes], page.more), (False, [5, 6], False))

    def test_who_has_all_gets_nothing(self) -> None:
        self.assertEqual(self.filled().since("g", 6)[:3], (False, [], False))

    def test_others_get_everything(self) -> None:
        for generation, position in ((None, 0), ("h", 4), ("g", 7), ("g", 0)):
            page = self.filled().since(generation, position)
            self.assertEqual((page.reset, page.changes[0].kind, len(page.changes)), (True, Kind.RESET, 6))

    def test_so_does_who_missed_what_was_dropped(self) -> None:
        record = self.filled()
        record.append(delete(replace(QUEUE, name="q0")), ONE, 0, record.last)
        record.append(create(replace(QUEUE, name="q9")), ONE, 0, record.last)
        self.assertEqual(record.compress(), [2, 7])
        self.assertTrue(record.since("g", 6).reset)
        self.assertFalse(record.since("g", 7).reset)

    def test_who_missed_what_an_earlier_compression_dropped_does_so_after_a_later_one(self) -> None:
        record, other = begun(), replace(QUEUE, name="other", max_consumers=1)
        record.append(create(), ONE, 0, record.last)
        record.append(create(other), ONE, 0, record.last)
        record.append(update(replace(other, max_consumers=2)), ONE, 0, record.last)
        self.assertEqual(record.compress(), [3])
        record.append(update(replace(QUEUE, max_consumers=3)), ONE, 0, record.last)
        self.assertEqual(record.compress(), [2])
        self.assertTrue(record.since("g", 2).reset)
        self.assertEqual(record.floor, ChangeRecord.load(record.changes).floor)

    def test_everything_comes_in_pages(self) -> None:
        record = self.filled()
        record.append(delete(replace(QUEUE, name="q0")), ONE, 0, record.last)
        record.append(create(replace(QUEUE, name="q9")), ONE, 0, record.last)
        record.compress()
        page = record.since(None, 0, 2)
        found = list(page.changes)
        while page.more:
            page = record.following(found[-1].position, page.floor, 2)
            self.assertFalse(page.reset)
            found += page.changes
        self.assertEqual(found, record.changes)

    def test_pages_between_which_something_was_dropped_begin_anew(self) -> None:
        record = self.filled()
        page = record.since(None, 0, 2)
        record.append(delete(replace(QUEUE, name="q3")), ONE, 0, record.last)
        record.append(delete(replace(QUEUE, name="q4")), ONE, 0, record.last)
        record.compress()
        page = record.following(page.changes[-1].position, page.floor, 2)
        self.assertEqual((page.reset, page.changes[0].kind), (True, Kind.RESET))

    def test_the_origin_of_a_record_is_known(self) -> None:
        record = self.filled()
        later = record.renewed("h", TWO, 9)
        self.assertTrue(later.since("g", 6).reset)
        self.assertTrue(all(map(later.knows, (None, "g", "h"))))
        self.assertFalse(later.knows("elsewhere"))
        self.assertEqual([change.form for change in later.definitions], [change.form for change in record.definitions])
        self.assertEqual([change.position for change in later.changes], [1, 2, 3, 4, 5, 6])
        self.assertEqual([(change.generation, change.life) for change in later.definitions], [("g", life) for life in range(2, 7)])

    def test_a_queue_that_was_made_again_is_a_later_one_also_after_changes_of_the_master(self) -> None:
        record = begun()
        for wish in (create(), delete(), create()):
            record.append(wish, ONE, 0, record.last)
        earlier, later = ("g", 2), ("g", 4)
        for _ in range(3):
            change = record.get("queue:q")
            assert change is not None
            self.assertTrue(record.is_later(change, earlier))
            for life in (later, ("g", 9), (record.generation, 9), ("elsewhere", 1)):
                self.assertFalse(record.is_later(change, life), life)
            record = record.renewed(f"{record.generation}h", TWO, 0)
        record.append(delete(), ONE, 0, record.last)
        change = record.append(create(), ONE, 0, record.last).change
        assert change is not None
        self.assertTrue(record.is_later(change, later))

    def test_a_life_that_began_in_a_record_that_is_not_remembered_cannot_be_compared(self) -> None:
        record = begun()
        record.append(create(), ONE, 0, record.last)
        for number in range(FORMER_MAX + 1):
            record = record.renewed(f"g{number}", ONE, 0)
        change = record.get("queue:q")
        assert change is not None
        self.assertFalse(record.is_later(change, ("g5", 1)))

    def test_so_many_origins_are_remembered(self) -> None:
        record = begun()
        for number in range(FORMER_MAX + 5):
            record = record.renewed(f"g{number}", ONE, 0)
        self.assertEqual(len(record.former), FORMER_MAX)
        self.assertFalse(record.knows("g"))


class Member:
    """Follows a record, and keeps what it says."""

    def __init__(self) -> None:
        self.generation: str | None = None
        self.position = 0
        self.definitions: dict[str, Any] = {}
        self.lives: dict[str, Life] = {}
        """Of what is defined, as of the first change that the member has heard of."""

    def follow(self, record: ChangeRecord) -> None:
        page = record.since(self.generation, self.position, 3)
        changes: list[Recorded] = []
        while True:
            changes += page.changes
            if not page.more:
                break
            if page.reset:
                page = record.following(changes[-1].position, page.floor, 3)._replace(reset=True)
            else:
                page = record.since(self.generation, changes[-1].position, 3)
        if page.reset:
            self.end(ChangeRecord.load(changes))
        self.generation = record.generation
        for change in changes:
            self.apply(change)

    def end(self, record: ChangeRecord) -> None:
        """End what the record does not have, or has in a later life."""
        for key in list(self.definitions):
            change = record.get(key)
            if change is None or record.is_later(change, self.lives[key]):
                del self.definitions[key], self.lives[key]

    def apply(self, change: Recorded) -> None:
        self.position = change.position
        if change.kind.removes:
            self.definitions.pop(change.key, None)
            self.lives.pop(change.key, None)
            if change.key.startswith("address:"):
                on = change.key.removeprefix("address:")
                gone = [key for key, form in self.definitions.items() if key.startswith("queue:") and form["address"] == on]
                for key in gone:
                    del self.definitions[key], self.lives[key]
        elif change.kind is not Kind.RESET:
            assert self.generation is not None
            self.definitions[change.key] = change.form
            self.lives.setdefault(change.key, (change.generation or self.generation, change.life))


class RecordMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.record = begun()
        self.model: dict[str, Any] = {}
        self.lives: dict[str, Life] = {}
        self.members = [Member(), Member()]
        self.generations = 0

    @rule(change=changes(), origin=st.sampled_from((ONE, TWO)))
    def append(self, change: Change, origin: str) -> None:
        wish = wish_of(change)
        before = self.record.last
        try:
            found = self.record.append(wish, origin, 0, before)
        except MQError:
            assert change.action == "create" and not same(self.model[wish.key], wish.form)
            assert self.record.last == before
            return
        assert found.position == (self.record.last if found.change else found.position) <= self.record.last
        if change.action == "delete":
            self.model.pop(wish.key, None)
            self.lives.pop(wish.key, None)
            if wish.key.startswith("address:") and found.change:
                on = change.definition.name
                for key in [key for key, form in self.model.items() if key.startswith("queue:") and form["address"] == on]:
                    del self.model[key], self.lives[key]
        elif found.change:
            self.model[wish.key] = wish.form
            self.lives.setdefault(wish.key, (self.record.generation, found.position))

    @rule(number=st.integers(0, 1))
    def follow(self, number: int) -> None:
        member = self.members[number]
        member.follow(self.record)
        assert member.definitions == self.model
        assert member.lives == self.lives
        assert member.position == self.record.last

    @rule()
    def compress(self) -> None:
        dropped = self.record.compress()
        assert self.record.slack <= 1 and self.record.last not in dropped

    @rule()
    def restart(self) -> None:
        floor = self.record.floor
        self.record = ChangeRecord.load(self.record.changes)
        assert self.record.floor == floor

    @rule()
    def change_the_master(self) -> None:
        self.generations += 1
        self.record = self.record.renewed(f"h{self.generations}", TWO, 0)

    @invariant()
    def the_record_has_what_is_defined(self) -> None:
        assert {change.key: change.form for change in self.record.definitions} == self.model
        assert [form_of_key(change) for change in self.record.definitions] == [change.key for change in self.record.definitions]


def form_of_key(change: Recorded) -> str:
    return f"{change.key.partition(':')[0]}:{change.form['name']}"


class ModelTests(SynchronousTestCase):
    def test_the_record_and_its_members_agree_with_the_model(self) -> None:
        machine: Any = RecordMachine.TestCase
        machine.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
        machine().runTest()

    def test_a_form_is_one_of_a_definition(self) -> None:
        self.assertEqual(create().form, form_of(QUEUE))
