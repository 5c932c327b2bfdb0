"""The ordered list of waiting references, and cursors on it."""

from __future__ import annotations

import functools
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.messaging.message.message import Message
from mqbroker.messaging.queues import references
from mqbroker.messaging.queues.queue import Queue
from mqbroker.messaging.queues.references import Cursor, Reference, ReferenceList
from tests.unit.messaging.support import Bench


@functools.cache
def _queue() -> Queue:
    return Bench().queue("q")


def _message(priority: int, number: int) -> Message:
    return Message(bytes(8) + number.to_bytes(4) + bytes((priority,)), 0, "q", number, durable=False, expiration=0, properties_offset=13)


def _number(message: Message) -> int:
    """That of the model, which the id does not tell where ids come late."""
    return int.from_bytes(message.buffer[8:12])


def _reference(priority: int, number: int) -> Reference:
    return Reference(_message(priority, number), _queue())


def _numbers(references: Any) -> list[int]:
    return [reference.message.message_id for reference in references]


class ReferenceListTests(SynchronousTestCase):
    def test_highest_priority_first_in_order_within(self) -> None:
        waiting = ReferenceList()
        for number, priority in enumerate((4, 9, 4, 0, 9)):
            waiting.append(_reference(priority, number))
        self.assertEqual(_numbers(waiting), [1, 4, 0, 2, 3])

    def test_a_returned_reference_goes_to_its_original_place(self) -> None:
        waiting = ReferenceList()
        references = [_reference(4, number) for number in range(5)]
        for reference in references:
            waiting.append(reference)
        for index in (3, 0, 1):
            waiting.remove(references[index])
        waiting.insert(references[1])
        waiting.insert(references[3])
        waiting.insert(references[0])
        self.assertEqual(_numbers(waiting), [0, 1, 2, 3, 4])

    def test_a_prepended_reference_is_the_first_of_its_priority(self) -> None:
        waiting = ReferenceList()
        for number in (1, 2):
            waiting.append(_reference(4, number))
        waiting.prepend(_reference(4, 0))
        waiting.append(_reference(4, 3))
        self.assertEqual(_numbers(waiting), [0, 1, 2, 3])

    def test_a_browser_sees_nothing_twice(self) -> None:
        waiting = ReferenceList()
        references = [_reference(4, number) for number in range(4)]
        for reference in references:
            waiting.append(reference)
        cursor = Cursor(restarts=False)
        seen = [waiting.search(cursor, lambda reference: True) for _ in range(2)]
        waiting.remove(references[1])
        waiting.insert(references[1])
        while (reference := waiting.search(cursor, lambda reference: True)) is not None:
            seen.append(reference)
        self.assertEqual([entry.message.message_id for entry in seen if entry is not None][:2], [0, 1])
        self.assertIn(3, [entry.message.message_id for entry in seen if entry is not None])


class _Model(RuleBasedStateMachine):
    """The list against a plain sorted Python list, and a restarting cursor against a full scan."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting = ReferenceList()
        self.model: list[Reference] = []
        self.gone: list[Reference] = []
        self.cursor = Cursor(restarts=True)
        self.taken: set[int] = set()
        self.count = 0

    def _sorted(self) -> list[Reference]:
        return sorted(self.model, key=lambda reference: (-reference.priority, reference.order))

    @rule(priority=st.integers(0, 9))
    def append(self, priority: int) -> None:
        self.count += 1
        reference = _reference(priority, self.count)
        self.waiting.append(reference)
        self.model.append(reference)

    @rule(priority=st.integers(0, 9))
    def prepend(self, priority: int) -> None:
        self.count += 1
        reference = _reference(priority, self.count)
        self.waiting.prepend(reference)
        self.model.append(reference)

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        reference = data.draw(st.sampled_from(self.model))
        self.waiting.remove(reference)
        self.model.remove(reference)
        self.gone.append(reference)

    @precondition(lambda self: self.gone)
    @rule(data=st.data())
    def put_back(self, data: st.DataObject) -> None:
        reference = data.draw(st.sampled_from(self.gone))
        self.gone.remove(reference)
        self.waiting.insert(reference)
        self.model.append(reference)

    @rule(modulus=st.integers(2, 3))
    def search(self, modulus: int) -> None:
        """Whoever matches and was not taken is found: a cursor never hides a reference from its consumer."""

        def accept(reference: Reference) -> bool:
            return reference.message.message_id % 3 == 0

        found = self.waiting.search(self.cursor, accept)
        matching = [reference for reference in self._sorted() if accept(reference)]
        if found is None:
            assert not matching, _numbers(matching)
        else:
            self.waiting.remove(found)
            self.model.remove(found)
            self.gone.append(found)

    @invariant()
    def same_order(self) -> None:
        assert _numbers(self.waiting) == _numbers(self._sorted())
        assert self.waiting.count == len(self.model)
        head = self.waiting.head()
        assert head is (self._sorted()[0] if self.model else None)


ReferenceListModel = _Model.TestCase
ReferenceListModel.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


class _LongModel(RuleBasedStateMachine):
    """A list most of whose references are not made yet, against a sorted Python list of (-priority, order, number)."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes = references.REFERENCES_AHEAD, references.MADE_TOGETHER
        references.REFERENCES_AHEAD, references.MADE_TOGETHER = 2, 2
        self.waiting = ReferenceList()
        self.model: list[tuple[int, int, int]] = []
        self.messages: dict[int, Any] = {}
        self.held: list[Reference] = []
        self.gone: list[Reference] = []
        self.browser = Cursor(restarts=False)
        self.browsed: list[int] = []
        self.put_in: set[int] = set()
        """Those that came before the end: a browser may miss them."""
        self.count = 0
        self.next_order = 1
        self.first_order = 0

    def teardown(self) -> None:
        references.REFERENCES_AHEAD, references.MADE_TOGETHER = self.sizes

    def _new(self, priority: int, message_id: int) -> Any:
        message = _message(priority, self.count)
        message.message_id = message_id
        self.messages[self.count] = message
        return message

    def _came(self, message: Any) -> None:
        order = max(message.message_id, self.next_order)
        self.next_order = order + 1
        self.model.append((-message.priority, order, _number(message)))
        self.model.sort()

    def _left(self, reference: Reference) -> None:
        self.model = [entry for entry in self.model if entry[2] != _number(reference.message)]
        self.gone.append(reference)
        if reference in self.held:
            self.held.remove(reference)

    @rule(priorities=st.lists(st.sampled_from((0, 4, 4, 4, 9)), min_size=1, max_size=8), late=st.booleans())
    def arrive(self, priorities: list[int], late: bool) -> None:
        came = []
        for priority in priorities:
            self.count += 1
            came.append(self._new(priority, self.count // 2 if late else 10 * self.count))
            self._came(came[-1])
        self.waiting.append_messages(came, _queue())

    @rule(priority=st.sampled_from((0, 4, 9)))
    def append(self, priority: int) -> None:
        self.count += 1
        message = self._new(priority, 10 * self.count)
        self._came(message)
        self.held.append(Reference(message, _queue()))
        self.waiting.append(self.held[-1])

    @rule(priority=st.sampled_from((0, 4, 9)))
    def prepend(self, priority: int) -> None:
        self.count += 1
        self.model.append((-priority, self.first_order, self.count))
        self.model.sort()
        self.first_order -= 1
        self.put_in.add(self.count)
        self.waiting.prepend(Reference(self._new(priority, 10 * self.count), _queue()))

    @rule(times=st.integers(1, 4))
    def take_heads(self, times: int) -> None:
        for _ in range(times):
            expected = self.model[0][2] if self.model else None
            reference = self.waiting.take_head()
            assert (None if reference is None else _number(reference.message)) == expected
            if reference is not None:
                self._left(reference)

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(self.model))[2]
        cursor = Cursor(restarts=False)
        found = self.waiting.search(cursor, lambda reference: _number(reference.message) == number)
        cursor.close()
        assert found is not None and found.listed
        self.waiting.remove(found)
        self._left(found)

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def remove_held(self, data: st.DataObject) -> None:
        reference = data.draw(st.sampled_from(self.held))
        assert reference.listed
        self.waiting.remove(reference)
        self._left(reference)

    @precondition(lambda self: self.gone)
    @rule(data=st.data())
    def put_back(self, data: st.DataObject) -> None:
        reference = data.draw(st.sampled_from(self.gone))
        self.gone.remove(reference)
        self.waiting.insert(reference)
        self.put_in.add(_number(reference.message))
        self.model.append((-reference.priority, reference.order, _number(reference.message)))
        self.model.sort()

    @precondition(lambda self: self.model)
    @rule(data=st.data(), priority=st.sampled_from((0, 4, 9)))
    def change_elsewhere(self, data: st.DataObject, priority: int) -> None:
        """The priority of a message is changed for another queue."""
        message = self.messages[data.draw(st.sampled_from(self.model))[2]]
        message.buffer = message.buffer[:-1] + bytes((priority,))

    @rule(times=st.integers(1, 5))
    def browse(self, times: int) -> None:
        for _ in range(times):
            reference = self.waiting.search(self.browser, lambda reference: True)
            if reference is None:
                missed = {entry[2] for entry in self.model} - set(self.browsed)
                assert missed <= self.put_in, missed
                return
            self.browsed.append(_number(reference.message))

    @rule()
    def look_at_all(self) -> None:
        assert [_number(reference.message) for reference in self.waiting] == [entry[2] for entry in self.model]

    @invariant()
    def same_head_and_count(self) -> None:
        assert self.waiting.count == len(self.model)
        head = self.waiting.head()
        assert (None if head is None else _number(head.message)) == (self.model[0][2] if self.model else None)


LongReferenceListModel = _LongModel.TestCase
LongReferenceListModel.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
