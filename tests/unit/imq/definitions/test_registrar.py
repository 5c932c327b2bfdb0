"""What the registrar asks for, keeps and forgets."""

from __future__ import annotations

from collections.abc import Callable

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.imq.definitions.registrar import HomeRegistrar
from mqbroker.imq.record.followed import Followed
from mqbroker.messaging.administration.registrar import CONSUMER_PLACE, Change, Reservation
from mqbroker.messaging.queues.definitions import ANYCAST, QueueDefinition
from mqbroker.messaging.turns.undecided import Undecided
from mqclient.errors import IllegalStateError, MQError

CHANGE = Change("create", QueueDefinition("q", "q", ANYCAST))
TEMPORARY = Change("create", QueueDefinition("t", "t", ANYCAST, temporary=True, durable=False))


class Recorder:
    def __init__(self) -> None:
        self.asked: list[tuple[Change, bool, Callable[[MQError | None, int], None]]] = []
        self.at_once: int | None = None
        self.done: list[tuple[Change, int]] = []
        self.no: MQError | None = None
        self.standing = Followed({})
        self.behind = False
        self.readers: list[Callable[[], object]] = []

    def record(self, change: Change, deployed: bool, answered: Callable[[MQError | None, int], None]) -> int | None:
        if self.no is not None:
            raise self.no
        self.asked.append((change, deployed, answered))
        return self.at_once

    def made(self, change: Change, position: int) -> None:
        self.done.append((change, position))

    def read_on(self, done: Callable[[], object]) -> bool:
        self.readers.append(done)
        return self.behind


class Names:
    def __init__(self) -> None:
        self.held: list[Reservation] = []

    def reserve(self, reservation: Reservation) -> bool:
        self.held.append(reservation)
        return True

    def hold(self, reservation: Reservation) -> None:
        self.held.append(reservation)

    def release(self, reservation: Reservation) -> None:
        self.held.remove(reservation)


class RegistrarTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.registrar, self.recorder, self.names = HomeRegistrar(), Recorder(), Names()
        self.temporary: list[QueueDefinition] = []
        self.again: list[str] = []

    def begin(self) -> None:
        self.registrar.begin(self.recorder, self.names, self.temporary.append)

    def undecided(self) -> Undecided:
        found: Undecided = self.assertRaises(Undecided, self.registrar.agree, CHANGE)
        return found

    def test_what_the_configuration_defines_waits_for_the_record(self) -> None:
        self.undecided().when_known(lambda: self.registrar.agree(CHANGE))
        self.begin()
        self.recorder.at_once = 2
        self.registrar.deploy()
        self.assertEqual([each[:2] for each in self.recorder.asked], [(CHANGE, True)])
        self.registrar.agree(CHANGE)
        self.assertFalse(self.recorder.asked[-1][1])

    def test_an_answer_at_once(self) -> None:
        self.begin()
        self.recorder.at_once = 5
        self.registrar.agree(CHANGE)
        self.assertEqual(self.recorder.done, [])
        self.registrar.made(CHANGE)
        self.registrar.made(CHANGE)
        self.assertEqual(self.recorder.done, [(CHANGE, 5)])

    def test_an_answer_later(self) -> None:
        self.begin()
        self.undecided().when_known(lambda: self.again.append("a"))
        self.undecided().when_known(lambda: self.again.append("b"))
        self.assertEqual(len(self.recorder.asked), 1)
        self.recorder.asked[0][2](None, 7)
        self.assertEqual(self.again, ["a", "b"])
        self.registrar.agree(CHANGE)
        self.registrar.made(CHANGE)
        self.assertEqual(self.recorder.done, [(CHANGE, 7)])
        self.undecided()

    def test_a_refusal(self) -> None:
        self.begin()
        self.undecided()
        self.recorder.asked[0][2](IllegalStateError("no"), 0)
        self.assertRaises(IllegalStateError, self.registrar.agree, CHANGE)
        self.recorder.no = IllegalStateError("away")
        self.assertRaises(IllegalStateError, self.registrar.agree, CHANGE)

    def test_an_answer_for_nobody_is_forgotten(self) -> None:
        self.begin()
        first, second = self.undecided(), self.undecided()
        first.when_known(lambda: self.again.append("a"))
        first.withdraw()
        first.withdraw()
        self.recorder.asked[0][2](None, 7)
        self.assertEqual(self.again, [])
        second.withdraw()
        self.undecided()
        self.assertEqual(len(self.recorder.asked), 2)

    def test_who_withdraws_before_the_answer(self) -> None:
        self.begin()
        self.undecided().withdraw()
        self.recorder.asked[0][2](None, 7)
        self.undecided()
        self.assertEqual(len(self.recorder.asked), 2)

    def test_who_ends_without_the_answer(self) -> None:
        """The queue was there already when the request was carried out, since the record was followed meanwhile."""
        self.begin()
        undecided = self.undecided()
        self.recorder.asked[0][2](None, 7)
        undecided.withdraw()
        self.undecided()
        self.assertEqual(len(self.recorder.asked), 2)

    def test_who_is_carried_out_late_takes_the_answer_while_the_record_stands(self) -> None:
        """Its connection cannot be served when the answer comes."""
        self.begin()
        self.undecided()
        self.recorder.standing.position = 6
        self.recorder.asked[0][2](None, 7)
        self.recorder.standing.position = 7
        self.registrar.agree(CHANGE)
        self.assertEqual(len(self.recorder.asked), 1)

    def test_who_is_carried_out_when_the_record_has_gone_on_asks_again(self) -> None:
        for generation, position in ((None, 8), ("g", 7)):
            with self.subTest(generation=generation):
                self.setUp()
                self.begin()
                self.undecided()
                self.recorder.standing.position = 6
                self.recorder.asked[0][2](None, 7)
                self.recorder.standing.generation, self.recorder.standing.position = generation, position
                self.undecided()
                self.assertEqual(len(self.recorder.asked), 2)

    def test_what_needs_no_record(self) -> None:
        self.registrar.agree(TEMPORARY)
        self.registrar.made(TEMPORARY)
        self.begin()
        self.registrar.agree(TEMPORARY)
        self.registrar.made(TEMPORARY)
        self.assertEqual((self.recorder.asked, self.temporary), ([], [TEMPORARY.definition]))

    def test_reading_on(self) -> None:
        self.registrar.read_on()
        self.begin()
        self.registrar.read_on()
        self.recorder.behind = True
        first, second = (self.assertRaises(Undecided, self.registrar.read_on) for _ in range(2))
        first.when_known(lambda: self.again.append("a"))
        second.when_known(lambda: self.again.append("b"))
        second.withdraw()
        for done in self.recorder.readers:
            done()
        self.assertEqual(self.again, ["a"])

    def test_names(self) -> None:
        name, place = Reservation("jms-client-id", "me", "s"), Reservation(CONSUMER_PLACE, "q", "s/1")
        self.assertTrue(self.registrar.reserve(name))
        self.registrar.hold(name)
        self.registrar.release(name)
        self.begin()
        for each in (name, place):
            self.assertTrue(self.registrar.reserve(each))
        self.assertEqual(self.names.held, [name])
        for each in (name, place):
            self.registrar.release(each)
        self.assertEqual(self.names.held, [])
        self.registrar.hold(name)
        self.assertEqual(self.names.held, [name])
