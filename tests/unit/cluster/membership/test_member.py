"""Where a member is looked for."""

from __future__ import annotations

from unittest.mock import Mock

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.cluster.membership.member import CONTRADICTION_SECONDS, UNREACHABLE_MS, Member
from mqclient.errors import NotConnectedError
from mqclient.protocol.connection import DisconnectReceived
from mqclient.protocol.topology import TopologyMember
from tests.support.clock import FakeClock
from tests.unit.cluster.support import connector


class PlaceTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.known: TopologyMember | None = TopologyMember("b", 1, connector(1))
        self.owner = Mock()
        self.owner.topology.get = lambda node_id: self.known
        self.owner.turn.run = lambda function, *args: function(*args)
        assert self.known is not None
        self.member = Member(self.owner, self.known, Mock())
        self.member.start()
        self.member.started(Mock())

    def lose(self) -> None:
        self.member.lost(NotConnectedError("cut"), None)
        self.known = None  # reported as gone

    def test_the_backup_that_came_after_the_link(self) -> None:
        self.known = TopologyMember("b", 2, connector(1), connector(2))
        self.lose()
        self.assertEqual(list(self.member.connectors()), [connector(1), connector(2)])

    def test_where_it_was_announced_last(self) -> None:
        self.lose()
        self.member.announced(TopologyMember("b", 3, connector(2)))
        self.assertEqual(list(self.member.connectors()), [connector(2)])

    def test_what_others_report_as_gone_is_looked_for_where_it_was(self) -> None:
        self.member.announced(TopologyMember("b", 2, connector(1), connector(2)))
        self.known = None
        self.lose()
        self.assertEqual(list(self.member.connectors()), [connector(1), connector(2)])


class IdentityTests(SynchronousTestCase):
    """A link to the place of the member "b"."""

    def setUp(self) -> None:
        self.owner = Mock()
        self.owner.topology.get = lambda node_id: TopologyMember("b", 2, connector(1))
        self.load = Mock()
        self.member = Member(self.owner, TopologyMember("b", 1, connector(1)), self.load)

    def connected(self, node_id: str, there: list[str]) -> Deferred[None]:
        async def asked(factory: object) -> None:
            """The member is asked for its queues."""

        self.load.connected = asked
        factory = Mock(node_id=node_id, nodes_there=there, connector=connector(1))
        return Deferred.fromCoroutine(self.member.connected(factory))

    def test_the_member_is_there(self) -> None:
        self.successResultOf(self.connected("b", ["b"]))

    def test_another_broker_is_there_although_others_still_announce_the_member_at_that_place(self) -> None:
        """Others have not noticed that their links to the member are dead: the messages for the member are not for that broker."""
        self.failureResultOf(self.connected("c", ["c"]), NotConnectedError)

    def test_the_member_also_names_the_node_that_was_there_before(self) -> None:
        self.successResultOf(self.connected("c", ["b", "c"]))

    def test_a_broker_that_says_nothing_of_its_place(self) -> None:
        self.successResultOf(self.connected("c", []))


class MovedTests(SynchronousTestCase):
    """The store of the broker to which the link is was taken by its backup, which goes on as the same node at another place."""

    def setUp(self) -> None:
        self.known = TopologyMember("b", 1, connector(1))
        self.owner = Mock()
        self.owner.topology.get = lambda node_id: self.known
        self.owner.turn.run = lambda function, *args: function(*args)
        self.load = Mock(connected=self._asked)
        self.member = Member(self.owner, self.known, self.load)
        self.member.start()
        self.successResultOf(Deferred.fromCoroutine(self.member.connected(Mock(node_id="b", nodes_there=["b"], connector=connector(1)))))
        self.member.started(Mock())

    async def _asked(self, factory: object) -> None:
        """The member is asked for its queues."""

    def end(self) -> None:
        """The broker at the place of the link says goodbye."""
        self.member.lost(NotConnectedError("stopped"), DisconnectReceived("b", 2, None, None))

    def test_who_says_goodbye_at_the_former_place_does_not_end_the_member(self) -> None:
        self.known = TopologyMember("b", 2, connector(2), connector(1))
        self.end()
        self.assertEqual((self.member.state, list(self.member.connectors())), ("connecting", [connector(2), connector(1)]))
        self.owner.topology.lost.assert_not_called()
        self.owner.member_gone.assert_not_called()
        self.load.disconnected.assert_called_once_with()

    def test_one_that_cannot_be_reached_at_its_new_place_leaves_the_topology(self) -> None:
        self.owner.clock.wall_ms = lambda: 1_000
        self.known = TopologyMember("b", 2, connector(2))
        self.end()
        self.owner.clock.wall_ms = lambda: 1_000 + UNREACHABLE_MS
        self.member.attempt_failed(NotConnectedError("refused"))
        self.owner.topology.lost.assert_called_once_with("b")

    def test_who_says_goodbye_where_the_member_is_ends_it(self) -> None:
        self.end()
        self.owner.topology.lost.assert_called_once_with("b")
        self.owner.member_gone.assert_called_once_with(self.member)


class UnreachedTests(SynchronousTestCase):
    """A member that was announced and is gone before there is a link to it."""

    def setUp(self) -> None:
        self.owner = Mock()
        self.owner.topology.get = lambda node_id: TopologyMember("b", 1, connector(1))
        self.owner.turn.run = lambda function, *args: function(*args)
        self.now = 1_000
        self.owner.clock.wall_ms = lambda: self.now
        self.member = Member(self.owner, TopologyMember("b", 1, connector(1)), Mock())
        self.member.start()

    def fail(self, after_ms: int) -> None:  # type: ignore[override]
        self.now += after_ms
        self.member.attempt_failed(NotConnectedError("refused"))

    def test_it_leaves_the_topology_once(self) -> None:
        self.fail(0)
        self.fail(UNREACHABLE_MS - 1)
        self.owner.topology.lost.assert_not_called()
        self.fail(1)
        self.fail(UNREACHABLE_MS)
        self.owner.topology.lost.assert_called_once_with("b")

    def test_it_leaves_again_when_it_was_announced_again(self) -> None:
        self.member.started(Mock())
        self.member.lost(NotConnectedError("cut"), None)
        self.member.announced(TopologyMember("b", 2, connector(1)))
        self.fail(UNREACHABLE_MS - 1)
        self.owner.topology.lost.assert_called_once_with("b")
        self.fail(1)
        self.assertEqual(self.owner.topology.lost.call_count, 2)

    def test_who_is_contradicted_waits_twice_as_long(self) -> None:
        self.fail(0)
        self.fail(UNREACHABLE_MS)
        self.member.announced(TopologyMember("b", 2, connector(1)))
        self.fail(2 * UNREACHABLE_MS - 1)
        self.owner.topology.lost.assert_called_once_with("b")
        self.fail(1)
        self.assertEqual(self.owner.topology.lost.call_count, 2)

    def test_it_is_back_although_others_said_that_it_has_left(self) -> None:
        self.owner.topology.get = lambda node_id: None
        self.member.started(Mock())
        self.owner.member_up.assert_called_once_with(TopologyMember("b", 1, connector(1)))

    def test_it_is_back_when_it_is_reached(self) -> None:
        self.fail(0)
        self.fail(UNREACHABLE_MS)
        self.member.started(Mock())
        self.owner.member_up.assert_called_once_with(TopologyMember("b", 1, connector(1)))

    def test_a_link_that_is_up_has_no_error_any_more(self) -> None:
        self.fail(0)
        self.assertEqual((self.member.last_error, self.member.last_error_ms), ("refused", self.now))
        self.member.started(Mock())
        self.assertEqual((self.member.last_error, self.member.last_error_ms), (None, None))

    def test_one_that_is_only_late_stays(self) -> None:
        self.fail(0)
        self.fail(UNREACHABLE_MS - 1)
        self.member.started(Mock())
        self.owner.topology.lost.assert_not_called()
        self.owner.member_up.assert_not_called()


class ContradictionTests(SynchronousTestCase):
    """Another broker says that a member has left to which there is a link."""

    def setUp(self) -> None:
        self.clock = FakeClock()
        self.owner = Mock()
        self.owner.clock = self.clock
        self.owner.turn.run = lambda function, *args: function(*args)
        self.owner.topology.get = lambda node_id: None
        self.reported = TopologyMember("b", 2, connector(1))
        self.member = Member(self.owner, self.reported, Mock())
        self.member.start()
        self.member.started(Mock())

    def test_a_link_that_stays_up_shows_that_the_member_is_there(self) -> None:
        self.member.reported_gone(self.reported)
        self.clock.advance(CONTRADICTION_SECONDS / 2)
        self.member.reported_gone(self.reported)
        self.clock.advance(CONTRADICTION_SECONDS * 0.9)
        self.owner.topology.found_again.assert_not_called()
        self.clock.advance(CONTRADICTION_SECONDS)
        self.owner.topology.found_again.assert_called_once_with(self.reported)

    def test_a_member_that_was_announced_again_needs_no_help(self) -> None:
        self.member.reported_gone(self.reported)
        self.owner.topology.get = lambda node_id: self.reported
        self.clock.advance(CONTRADICTION_SECONDS)
        self.owner.topology.found_again.assert_not_called()

    def test_without_a_link_the_others_are_right(self) -> None:
        self.member.reported_gone(self.reported)
        self.member.lost(NotConnectedError("cut"), None)
        self.member.reported_gone(self.reported)
        self.clock.advance(2 * CONTRADICTION_SECONDS)
        self.owner.topology.found_again.assert_not_called()

    def test_the_end_of_the_member_ends_it(self) -> None:
        self.member.reported_gone(self.reported)
        self.member.stop()
        self.assertEqual(self.clock.pending, 0)
