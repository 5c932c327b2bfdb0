"""A replica as its active broker sees it: what it may say, and when it is given up."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.ha.proof.copy_record import OtherCopy
from mqbroker.ha.replication import packets as p
from mqbroker.ha.replication.replica import Replica
from mqclient.errors import MalformedPacketError
from mqclient.wire.frames import HEADER_SIZE, FrameSplitter
from tests.support.clock import FakeClock
from tests.unit.cluster.support import connector


class Connection:
    """The connection of a replica."""

    remote = "replica:1"

    def __init__(self) -> None:
        self.data = bytearray()
        self.closed = False
        self.link: Any = None

    def use_for(self, link: Any) -> None:
        self.link = link

    def send_frame(self, data: bytes) -> None:
        self.data += data

    def send_parts(self, parts: list[bytes], size: int) -> None:
        assert sum(map(len, parts)) == size
        self.data += b"".join(parts)

    def flush(self) -> None: ...

    def fail(self, reason: str) -> None:
        self.closed = True
        self.link.ended(reason)

    def said(self) -> list[Any]:
        frames = FrameSplitter().feed(bytes(self.data))
        self.data.clear()
        return [p.read_packet(int.from_bytes(each[4:5], "big", signed=True), each[HEADER_SIZE:]) for each in frames]


class Feed:
    """A feed whose replica has answered nothing."""

    progress = (0, 0)

    def __init__(self, send: Any, copied: Any, lost: Any) -> None:
        self.send, self.copied, self.lost = send, copied, lost
        self.behind = 0
        self.state = ""
        self.withdrawn = False

    def start(self) -> None:
        self.state = "started"
        self.send([b"changes"])
        self.behind = 7

    def answered(self, number: int) -> None:
        if number > 9:
            raise ValueError("it was not sent")
        self.behind = 0
        if number == 1:
            self.copied()

    def demand(self) -> Any:
        self.state = "demanded"
        return self

    def withdraw(self) -> None:
        self.withdrawn = True

    def stop(self) -> None:
        self.state = "stopped"


class Owner:
    """The active broker."""

    sequence = 5

    def __init__(self) -> None:
        self.feed: Any = None
        self.noted: Deferred[Any] = Deferred()
        self.notes: list[OtherCopy] = []
        self.told: list[Any] = []
        self.places = True

    def has_place(self, replica: Any) -> bool:
        return self.places

    def welcome(self) -> p.Welcome:
        return p.Welcome(p.VERSION, "A", "node", connector(1), False)

    def make_feed(self, send: Any, copied: Any, lost: Any) -> Any:
        self.feed = Feed(send, copied, lost)
        return self.feed

    def note(self, other: OtherCopy) -> Deferred[Any]:
        self.notes.append(other)
        return self.noted

    def answer(self, handler: str, question: bytes) -> Deferred[bytes]:
        raise AssertionError

    def in_sync(self, replica: Any) -> None:
        self.told.append("in sync")

    def left(self, replica: Any, proof_needed: bool) -> None:
        self.told.append(proof_needed)


class ReplicaCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = FakeClock()
        self.connection: Any = Connection()
        self.owner: Any = Owner()
        self.replica = Replica(self.owner, self.connection, connector(2), False, self.clock, 5.0, 30.0)

    def say(self, *packets: p.Said) -> None:
        for packet in packets:
            data = p.packet_frame(packet)
            self.replica.received(packet.TYPE, memoryview(data)[HEADER_SIZE:])

    def greet(self) -> None:
        self.say(p.Hello(p.VERSION, "B", "node"), p.Ready())

    def complete(self) -> None:
        self.greet()
        self.say(p.Answered(1))
        self.owner.noted.callback(None)


class GoodReplicaTests(ReplicaCase):
    def test_the_note_is_durable_before_the_replica_hears_that_it_is_complete(self) -> None:
        self.greet()
        self.assertEqual(self.connection.said(), [self.owner.welcome(), p.Changes(b"changes")])
        self.say(p.Answered(1))
        self.assertEqual((self.owner.feed.state, self.connection.said()), ("demanded", []))
        self.assertEqual([each.copy_id for each in self.owner.notes], ["B"])
        self.owner.noted.callback(None)
        self.assertEqual((self.connection.said(), self.owner.told), ([p.Complete(5)], []))
        self.say(p.Completed())
        self.assertEqual((self.owner.told, self.replica.is_in_sync), (["in sync"], True))

    def test_a_replica_that_owes_nothing_may_be_silent(self) -> None:
        self.complete()
        self.say(p.Completed())
        self.clock.advance(100)
        self.assertTrue(self.replica.is_in_sync)


class WaitingTests(ReplicaCase):
    """There is no place for it yet."""

    def setUp(self) -> None:
        super().setUp()
        self.owner.places = False

    def test_it_is_welcome_when_there_is_a_place(self) -> None:
        self.say(p.Hello(p.VERSION, "B", "node"))
        for _ in range(20):
            self.clock.advance(1)
        self.assertEqual((self.connection.said(), self.owner.feed, self.replica.reason), ([], None, ""))
        self.owner.places = True
        self.replica.welcome()
        self.clock.advance(4)
        self.assertEqual((self.connection.said(), self.owner.told), ([self.owner.welcome()], []))
        self.say(p.Ready())
        self.assertEqual(self.owner.feed.state, "started")

    def test_from_its_place_on_it_has_to_answer(self) -> None:
        self.say(p.Hello(p.VERSION, "B", "node"))
        self.clock.advance(4)
        self.owner.places = True
        self.replica.welcome()
        self.clock.advance(6)
        self.assertIn("AMQ222207", self.replica.reason)

    def test_one_that_does_not_say_who_it_is_is_given_up(self) -> None:
        self.clock.advance(6)
        self.assertIn("AMQ222207", self.replica.reason)

    def test_it_is_welcome_when_it_has_said_who_it_is(self) -> None:
        self.owner.places = True
        self.replica.welcome()
        self.assertEqual(self.connection.said(), [])
        self.say(p.Hello(p.VERSION, "B", "node"))
        self.assertEqual(self.connection.said(), [self.owner.welcome()])

    def test_it_does_not_copy_before(self) -> None:
        self.assertRaises(MalformedPacketError, self.greet)
        self.assertIsNone(self.owner.feed)


class GivenUpTests(ReplicaCase):
    def test_an_answer_that_waits_in_the_socket_of_a_broker_that_stood_still_is_read_first(self) -> None:
        self.greet()
        self.clock.advance(4.75)
        self.clock.call_later(0.25, self.say, p.Answered(1))  # after the timer of the look, which is in the same turn
        self.clock.advance(0.25)
        self.assertEqual((self.connection.closed, self.replica.reason), (False, ""))

    def test_before_the_note_nothing_waits_for_it(self) -> None:
        self.greet()
        self.clock.advance(6)
        self.assertEqual((self.owner.told, self.owner.feed.state, self.connection.closed), ([False], "stopped", True))
        self.assertIn("AMQ222207", self.replica.reason)

    def test_from_the_note_on_a_proof_is_needed_and_the_connection_stays_for_it(self) -> None:
        self.complete()
        self.clock.advance(6)
        self.assertEqual((self.owner.told, self.owner.feed.withdrawn, self.connection.closed), ([True], False, False))
        self.replica.forget()
        self.clock.advance(0)
        self.assertEqual((self.owner.feed.withdrawn, self.connection.closed), (True, True))

    def test_a_note_that_is_too_late_changes_nothing(self) -> None:
        self.greet()
        self.say(p.Answered(1))
        self.connection.fail("cut")
        self.owner.noted.callback(None)
        self.connection.said()
        self.assertEqual((self.owner.told, self.replica.state), ([True], "over"))

    def test_a_note_that_fails_ends_it(self) -> None:
        self.greet()
        self.say(p.Answered(1))
        self.owner.noted.errback(ValueError("no"))
        self.assertEqual(self.owner.told, [True])

    def test_a_copy_that_is_complete_has_its_time_to_be_in_sync(self) -> None:
        self.greet()
        self.say(p.Answered(1))
        self.clock.advance(31)
        self.assertIn("initial-replication-sync-timeout", self.replica.reason)

    def test_what_it_may_not_say(self) -> None:
        for packets in (
            (p.Hello(2, "B", "node"),),
            (p.Hello(p.VERSION, "A", "node"),),
            (p.Hello(p.VERSION, "", "node"),),
            (p.Hello(p.VERSION, "B", "another"),),
            (p.Hello(p.VERSION, "B", ""), p.Hello(p.VERSION, "B", "")),
            (p.Completed(),),
            (p.Ready(),),
            (p.Complete(5),),
            (p.Hello(p.VERSION, "B", ""), p.Ready(), p.Ready()),
            (p.Hello(p.VERSION, "B", ""), p.Ready(), p.Answered(10)),
        ):
            self.setUp()
            self.assertRaises(MalformedPacketError, self.say, *packets)

    def test_what_comes_late_is_passed_over(self) -> None:
        self.complete()
        self.replica.end("dropped")
        self.say(p.Answered(99), p.Completed())
        self.assertEqual(self.owner.told, [True])


class HandOverTests(ReplicaCase):
    def test_an_orderly_stop_waits_until_the_replica_has_everything(self) -> None:
        self.complete()
        self.say(p.Completed())
        told: list[str] = []
        self.connection.said()
        self.replica.stop_called()
        self.owner.feed.behind = 3
        self.replica.when_drained(lambda: told.append("drained"))
        self.assertEqual(told, [])
        self.say(p.Answered(2))
        self.replica.fail_over(lambda: told.append("gone"))
        self.assertEqual((told, self.connection.said()), (["drained"], [p.ScheduledFailover(0), p.ScheduledFailover(1)]))
        self.connection.fail("")
        self.assertEqual(told, ["drained", "gone"])

    def test_a_replica_that_has_gone_is_not_waited_for(self) -> None:
        self.complete()
        self.owner.feed.behind = 3
        told: list[str] = []
        self.replica.when_drained(lambda: told.append("drained"))
        self.connection.fail("cut")
        self.replica.when_drained(lambda: told.append("again"))
        self.assertEqual(told, ["drained", "again"])
