"""Client ids that are used once in the cluster."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.imq.definitions import reservations
from mqclient.errors import DuplicateMetadataError, OperationTimeoutError
from mqclient.wire import packets as wire
from tests.support.broker import Session
from tests.unit.imq.net import ONE, TWO, Net, Node, three

CLIENT_ID = "jms-client-id"


def claim(node: Node, name: str = "me") -> Session:
    session = node.session()
    session.send(wire.UniqueAddMetadata(CLIENT_ID, name))
    return session


def answer(session: Session) -> int | None:
    """None: granted; else the code of the error.  Raises AssertionError when there is no answer."""
    [packet] = session.take()
    return packet.error_code if isinstance(packet, wire.ExceptionResponse) else None


class ReservationCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.net, self.one, self.two, self.three = three()

    def held(self) -> list[bool]:
        return [bool(node.shared.reservations._claims) for node in (self.one, self.two, self.three)]


class ClaimTests(ReservationCase):
    def test_all_linked_members_are_asked(self) -> None:
        session = claim(self.one)
        self.assertEqual(session.take(), [])
        self.net.settle()
        self.assertIsNone(answer(session))
        self.assertEqual(self.net.requests["reserve"], 2)

    def test_one_that_is_used_elsewhere(self) -> None:
        claim(self.one)
        self.net.settle()
        second = claim(self.three)
        self.net.settle()
        self.assertEqual(answer(second), DuplicateMetadataError.code)
        self.assertEqual(self.held(), [True, False, False])

    def test_it_is_free_again_when_its_session_ends(self) -> None:
        first = claim(self.one)
        self.net.settle()
        first.peer.lose()
        second = claim(self.three)
        self.net.settle()
        self.assertIsNone(answer(second))

    def test_of_two_that_ask_at_once_the_earlier_wins(self) -> None:
        first = claim(self.three)
        self.net.clock.seconds += 0.001
        second = claim(self.one)
        self.net.settle()
        self.assertEqual((answer(first), answer(second)), (None, DuplicateMetadataError.code))

    def test_and_of_the_same_time_the_smaller_node_id(self) -> None:
        sessions = [claim(node) for node in (self.three, self.two, self.one)]
        self.net.settle()
        self.assertEqual([answer(session) for session in sessions], [DuplicateMetadataError.code] * 2 + [None])
        self.assertEqual(self.held(), [True, False, False])

    def test_two_clients_of_one_broker(self) -> None:
        first, second = claim(self.two), claim(self.two)
        self.net.settle()
        self.assertEqual((answer(first), answer(second)), (None, DuplicateMetadataError.code))
        self.assertEqual(self.net.requests["reserve"], 2)

    def test_who_goes_before_the_decision_leaves_it_free(self) -> None:
        claim(self.one).peer.lose()
        self.net.settle()
        self.assertEqual(self.held(), [False, False, False])

    def test_so_does_who_goes_between_decision_and_answer(self) -> None:
        session = claim(self.one)
        session.peer.connection.pause_output()
        self.net.settle()
        session.peer.lose()
        self.assertEqual(self.held(), [False, False, False])

    def test_the_place_of_a_consumer_is_one_of_its_broker(self) -> None:
        session = self.one.session()
        session.ok(wire.CreateQueueV2("q", "q", durable=True, routing_type=1, max_consumers=1))
        session.consume("q")
        self.net.settle()
        self.assertEqual(self.net.requests["reserve"], 0)

    def test_a_member_that_is_lost_does_not_count(self) -> None:
        self.two.deaf.add("reserve")
        session = claim(self.one)
        self.net.settle(30)
        self.assertEqual(session.take(), [])
        self.net.cut(self.one, self.two)
        self.net.settle()
        self.assertIsNone(answer(session))

    def test_one_that_does_not_answer_refuses(self) -> None:
        self.two.deaf.add("reserve")
        session = claim(self.one)
        self.net.settle(61)
        [packet] = session.take()
        assert isinstance(packet, wire.ExceptionResponse)
        self.assertEqual(packet.error_code, OperationTimeoutError.code)
        self.assertIn(TWO, str(packet.message))
        self.assertEqual(self.held(), [False, False, False])

    def test_one_that_cannot_answer_refuses(self) -> None:
        self.patch(self.two.shared.operations, "_answers", {})
        session = claim(self.one)
        self.net.settle()
        self.assertEqual(answer(session), OperationTimeoutError.code)

    def test_a_member_that_is_linked_meanwhile_is_asked_too(self) -> None:
        self.net.cut(self.one, self.three)
        claim(self.three)
        self.net.settle()
        self.two.deaf.add("reserve")
        session = claim(self.one)
        self.net.settle()
        self.net.link(self.one, self.three)
        self.net.settle()
        self.assertEqual(answer(session), DuplicateMetadataError.code)


class ReturningTests(ReservationCase):
    """A client whose connection is lost goes on at another broker, and brings its client id along without asking."""

    def come(self, node: Node) -> Session:
        session = node.session()
        session.peer.ping(10_000_000)
        session.send(wire.AddMetadataV2(CLIENT_ID, "me", False))
        return session

    def test_its_name_is_reserved_there(self) -> None:
        session = self.come(self.two)
        self.net.settle()
        self.assertEqual(self.held(), [False, True, False])
        other = claim(self.three)
        self.net.settle()
        self.assertEqual(answer(other), DuplicateMetadataError.code)
        session.peer.lose()
        self.assertEqual(self.held(), [False, False, False])

    def test_as_soon_as_its_former_broker_has_noticed(self) -> None:
        former = claim(self.one)
        self.net.settle()
        session = self.come(self.two)
        self.net.settle(25)
        self.assertEqual(self.held(), [True, False, False])
        former.peer.lose()
        self.net.settle(10)
        self.assertEqual(self.held(), [False, True, False])
        self.net.settle(200)
        self.assertFalse(session.peer.transport.closed)

    def test_one_that_stays_in_use_elsewhere_costs_the_connection(self) -> None:
        claim(self.one).peer.ping(10_000_000)
        self.net.settle()
        session = self.come(self.two)
        self.net.settle(reservations.HOLD_SECONDS + 11)
        self.assertTrue(session.peer.transport.closed)
        [told] = session.take()
        assert isinstance(told, wire.ExceptionResponse)
        self.assertEqual(told.error_code, DuplicateMetadataError.code)
        self.assertEqual(self.held(), [True, False, False])

    def test_who_goes_meanwhile_leaves_nothing(self) -> None:
        claim(self.one).peer.ping(10_000_000)
        self.net.settle()
        self.come(self.two).peer.lose()
        session = self.come(self.two)
        self.net.settle()
        session.peer.lose()
        self.net.settle(100)
        self.assertEqual(self.held(), [True, False, False])
        session = self.come(self.two)
        self.net.settle()
        self.two.stop()
        self.net.settle(100)


class HealedTests(ReservationCase):
    def both(self) -> tuple[Session, Session]:
        self.net.cut(self.one, self.two)
        first = claim(self.two)
        self.net.settle(1)
        second = claim(self.one)
        self.net.settle()
        self.assertEqual((answer(first), answer(second)), (None, None))
        return first, second

    def test_the_later_holder_loses_its_connection_and_is_told(self) -> None:
        self.net.cut_off(self.three)
        first, second = self.both()
        self.net.link(self.one, self.two)
        self.net.settle()
        self.assertFalse(first.peer.transport.closed)
        self.assertTrue(second.peer.transport.closed)
        [told] = second.take()
        assert isinstance(told, wire.ExceptionResponse)
        self.assertEqual(told.error_code, DuplicateMetadataError.code)
        self.assertIn(TWO, str(told.message))
        self.assertEqual(self.held(), [False, True, False])

    def test_many_names_go_in_several_requests(self) -> None:
        self.patch(reservations, "HOLDS_MAX", 2)
        for number in range(5):
            claim(self.one, f"c{number}")
        self.net.settle()
        self.net.requests.clear()
        self.net.cut(self.one, self.two)
        self.net.link(self.one, self.two)
        self.net.settle()
        self.assertEqual(self.net.requests["holds"], 3)

    def test_one_that_is_asked_for_while_the_link_heals(self) -> None:
        self.net.cut_off(self.two)
        first = claim(self.two)
        self.net.settle(1)
        self.three.deaf.add("reserve")
        second = claim(self.one)
        self.net.link(self.one, self.two)
        self.net.settle()
        self.assertEqual((answer(first), answer(second)), (None, DuplicateMetadataError.code))

    def test_a_holder_that_has_gone_meanwhile(self) -> None:
        self.one.shared.reservations._expel("nobody", "reason")

    def test_wrong_requests(self) -> None:
        net = Net()
        one = net.add(ONE)
        for parameters in ([CLIENT_ID, "me", "late", "n"],):
            with self.assertRaises(Exception):  # noqa: B017
                one.answer("reserve", parameters)
