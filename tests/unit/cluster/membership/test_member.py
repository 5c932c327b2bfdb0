"""Where a member is looked for."""

from __future__ import annotations

from unittest.mock import Mock

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.cluster.membership.member import UNREACHABLE_MS, Member
from mqclient.errors import NotConnectedError
from mqclient.protocol.topology import TopologyMember
from tests.unit.cluster.support import connector


class PlaceTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.known: TopologyMember | None = TopologyMember("b", 1, connector(1))
        self.owner = Mock()
        self.owner.topology_member = lambda node_id: self.known
        self.owner.turn.run = lambda function, *args: function(*args)
        assert self.known is not None
        self.member = Member(self.owner, self.known, Mock(), Mock(), Mock())
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


class UnreachedTests(SynchronousTestCase):
    """A member that was announced and is gone before there is a link to it."""

    def setUp(self) -> None:
        self.owner = Mock()
        self.owner.topology_member = lambda node_id: TopologyMember("b", 1, connector(1))
        self.owner.turn.run = lambda function, *args: function(*args)
        self.now = 1_000
        self.owner.wall_ms = lambda: self.now
        self.member = Member(self.owner, TopologyMember("b", 1, connector(1)), Mock(), Mock(), Mock())
        self.member.start()

    def fail(self, after_ms: int) -> None:  # type: ignore[override]
        self.now += after_ms
        self.member.attempt_failed(NotConnectedError("refused"))

    def test_it_leaves_the_topology_once(self) -> None:
        self.fail(0)
        self.fail(UNREACHABLE_MS - 1)
        self.owner.member_down.assert_not_called()
        self.fail(1)
        self.fail(UNREACHABLE_MS)
        self.owner.member_down.assert_called_once_with("b")

    def test_it_leaves_again_when_it_was_announced_again(self) -> None:
        self.member.started(Mock())
        self.member.lost(NotConnectedError("cut"), None)
        self.member.announced(TopologyMember("b", 2, connector(1)))
        self.fail(UNREACHABLE_MS - 1)
        self.owner.member_down.assert_called_once_with("b")
        self.fail(1)
        self.assertEqual(self.owner.member_down.call_count, 2)

    def test_who_is_contradicted_waits_twice_as_long(self) -> None:
        self.fail(0)
        self.fail(UNREACHABLE_MS)
        self.member.announced(TopologyMember("b", 2, connector(1)))
        self.fail(2 * UNREACHABLE_MS - 1)
        self.owner.member_down.assert_called_once_with("b")
        self.fail(1)
        self.assertEqual(self.owner.member_down.call_count, 2)

    def test_it_is_back_although_others_said_that_it_has_left(self) -> None:
        self.owner.topology_member = lambda node_id: None
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
        self.owner.member_down.assert_not_called()
        self.owner.member_up.assert_not_called()
