"""What the link to a member carries, from its first connection to its end."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.cluster.links.bridge import Bridge
from mqbroker.config.model.cluster import ClusterConnectionConfiguration
from mqbroker.imq.links.home_links import HomeLinks
from mqbroker.imq.links.link import HomeLoads
from mqbroker.server.transport.cluster_channel import ClusterCredentials
from mqclient.errors import NotConnectedError
from tests.support.clock import FakeClock
from tests.unit.cluster.bridge_support import MemoryRuntime
from tests.unit.cluster.support import connector, member


class Factory:
    """A connection whose sessions are what they were asked for."""

    def __init__(self) -> None:
        self.connector = connector(7)
        self.connection = Mock()

    async def create_session(self, *args: Any, **more: Any) -> Any:
        return args, more


class LinkTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.links = HomeLinks()
        self.told: list[tuple[str, bool]] = []
        self.links.linked.subscribe(lambda found: self.told.append(("linked", found.up)))
        self.links.unlinked.subscribe(lambda found: self.told.append(("unlinked", found.up)))
        locators = SimpleNamespace(credentials=ClusterCredentials("cu", "cp"), topology=None, greet=None)
        self.owner: Any = SimpleNamespace(
            name="imq",
            configuration=ClusterConnectionConfiguration("imq", "self"),
            runtime=MemoryRuntime(FakeClock()),
            locators=locators,
        )
        self.load = HomeLoads(self.links, lambda node_id: 3 if node_id == "b" else 0).load(self.owner, member("b", 1))
        self.factory: Any = Factory()

    def connect(self) -> None:
        self.successResultOf(Deferred.fromCoroutine(self.load.connected(self.factory)))
        self.load.started()

    def test_it_is_kept_up_by_a_bridge_that_takes_no_messages(self) -> None:
        link = self.load.make_link(Mock(node_id="b", connectors=lambda: [connector(7)]))
        assert isinstance(link, Bridge)
        self.assertEqual((link.name, self.load.waiting, list(self.load.rows())), ("imq.b", 0, []))
        self.assertNotIn("messagesForwarded", link.figures())

    def test_a_member_is_linked_while_the_link_is_up(self) -> None:
        self.assertEqual(self.links.members, {})
        self.connect()
        self.assertEqual([found.name for found in self.links.members.values()], ["127.0.0.1:7"])
        self.load.disconnected()
        self.load.disconnected()
        self.assertEqual((self.told, self.links.members), ([("linked", True), ("unlinked", False)], {}))

    def test_it_ends_with_the_member_and_with_this_brokers_part_in_the_cluster(self) -> None:
        for end in (self.load.end, lambda: self.load.forgotten(False), lambda: self.load.move_to("c") or self.load.end()):
            self.connect()
            end()
            self.assertEqual(self.links.members, {})

    def test_sessions_are_those_of_the_cluster_user(self) -> None:
        self.connect()
        found = self.links.members["b"]
        args, more = self.successResultOf(Deferred.fromCoroutine(found.open_session(xa=True)))
        self.assertEqual((args, more["xa"], more["pre_acknowledge"], more["auto_commit_acks"]), (("cu", "cp"), True, False, True))
        _, transacted = self.successResultOf(Deferred.fromCoroutine(found.open_session(transacted=True)))
        self.assertFalse(transacted["auto_commit_acks"] or transacted["auto_commit_sends"])
        self.load.disconnected()
        self.failureResultOf(Deferred.fromCoroutine(found.open_session()), NotConnectedError)

    def test_a_link_whose_peer_cannot_be_trusted_is_given_up(self) -> None:
        self.connect()
        found = self.links.members["b"]
        found.fail(NotConnectedError("odd"))
        self.factory.connection.fail.assert_called_once()
        self.load.disconnected()
        found.fail(NotConnectedError("again"))
        self.factory.connection.fail.assert_called_once()

    def test_its_figures(self) -> None:
        self.assertEqual(self.load.figures(), {"remoteConsumers": 3})
        self.assertEqual([(name, read()) for name, _, read in self.load.series()], [("cluster.link.remote.consumers", 3)])
