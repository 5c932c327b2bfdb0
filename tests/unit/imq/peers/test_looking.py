"""Looks at the tables, again and again."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred, fail, succeed
from twisted.logger import formatEvent, globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.imq.peers.looking import LOOK_SECONDS, Looking
from mqbroker.messaging.turns.turn import Turn
from mqclient.errors import NotConnectedError
from tests.support.clock import FakeClock


class _Table:
    node_id = ""
    name = "the database x"

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []
        self.answer: Any = {"generation": "g", "position": 3, "members": [["b1:7676", True], ["b2:7676", False]]}

    def ask(self, operation: str, *parameters: Any) -> Deferred[Any]:
        self.asked.append((operation, *parameters))
        return fail(self.answer) if isinstance(self.answer, Exception) else succeed(self.answer)


class LookingTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock, self.table = FakeClock(), _Table()
        self.positions: list[tuple[str, int]] = []
        self.members: list[Any] = []
        self.lines: list[str] = []
        lines = self.lines

        def observe(event: Any) -> None:
            lines.append(formatEvent(event))

        globalLogPublisher.addObserver(observe)
        self.addCleanup(globalLogPublisher.removeObserver, observe)

    def looking(self, *, listed: bool = True) -> Looking:
        tell = self.members.append if listed else None
        found = Looking(self.table, self.clock, Turn(self.clock), lambda *position: self.positions.append(position), tell)
        found.start()
        return found

    def test_it_looks_at_once_and_then_again(self) -> None:
        self.looking()
        self.clock.advance(LOOK_SECONDS)
        self.assertEqual((self.table.asked, self.positions), ([("look", True)] * 2, [("g", 3)] * 2))
        self.assertEqual(self.members[0], [("b1:7676", True), ("b2:7676", False)])

    def test_members_are_not_asked_for_where_a_list_names_them(self) -> None:
        self.table.answer["members"] = None
        self.looking(listed=False)
        self.assertEqual((self.table.asked, self.positions), ([("look", False)], [("g", 3)]))

    def test_an_empty_table_has_no_position(self) -> None:
        self.table.answer["generation"] = ""
        self.looking()
        self.assertEqual((self.positions, len(self.members)), ([], 1))

    def test_a_database_that_is_away_is_told_once_and_looked_for(self) -> None:
        self.looking()
        answer, self.table.answer = self.table.answer, NotConnectedError("the database x does not answer")
        for _ in range(3):
            self.clock.advance(LOOK_SECONDS)
        self.table.answer = answer
        self.clock.advance(LOOK_SECONDS)
        told = [line for line in self.lines if "the database x" in line]
        expected = "the database x does not answer. Until it does, no definition can be changed; messages go on"
        self.assertEqual(told, [expected, "the database x answers again, after 15 s"])
        self.assertEqual(len(self.positions), 2)

    def test_it_looks_at_once_when_it_is_told_to(self) -> None:
        looking = self.looking()
        looking.look()
        self.assertEqual(len(self.table.asked), 2)
        self.clock.advance(LOOK_SECONDS)
        self.assertEqual(len(self.table.asked), 3)

    def test_it_looks_once_more_after_a_look_under_way(self) -> None:
        answer: Deferred[Any] = Deferred()
        answers = [answer, succeed(self.table.answer)]
        self.table.ask = lambda operation, *parameters: answers.pop(0)  # type: ignore[method-assign]
        looking = self.looking()
        looking.look()
        looking.look()
        self.assertEqual(len(answers), 1)
        answer.callback(self.table.answer)
        self.clock.run_due()
        self.assertEqual((answers, len(self.positions)), ([], 2))

    def test_it_looks_no_more_after_its_end(self) -> None:
        looking = self.looking()
        looking.stop()
        looking.look()
        self.clock.advance(LOOK_SECONDS)
        self.assertEqual(len(self.table.asked), 1)

    def test_a_defect_does_not_end_it(self) -> None:
        self.table.answer = {}
        self.looking()
        self.assertEqual(len(self.flushLoggedErrors(KeyError)), 1)
        self.clock.advance(LOOK_SECONDS)
        self.assertEqual(len(self.table.asked), 2)
        self.flushLoggedErrors(KeyError)

    def test_after_a_stop_nobody_is_told(self) -> None:
        looking = self.looking()
        looking.stop()
        self.clock.advance(LOOK_SECONDS)
        self.assertEqual(len(self.table.asked), 1)
        answered: Deferred[Any] = Deferred()
        self.table.ask = lambda *parameters: answered  # type: ignore[method-assign]
        looking = self.looking()
        looking.stop()
        answered.callback(self.table.answer)
        self.clock.advance(LOOK_SECONDS)
        self.assertEqual(len(self.positions), 1)
