"""Temporary destinations: known to all, kept for clients that come back, ended everywhere."""

from __future__ import annotations

import json
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.imq.definitions import temporary
from mqclient.wire import packets as wire
from mqclient.wire.frames import CLUSTER_CHANNEL
from tests.support.broker import Session
from tests.unit.imq.net import Node, three

KEPT_SECONDS = 50


def make(node: Node, name: str = "t", **attributes: Any) -> Session:
    session = node.session()
    session.peer.ping(1_000_000)
    values = {"durable": False, "temporary": True, "routing_type": 1, **attributes}
    session.ok(wire.CreateQueueV2(name, name, **values))
    return session


class TemporaryCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.net, self.one, self.two, self.three = three()

    def known(self) -> list[list[str]]:
        self.net.settle()
        return [node.queues for node in (self.one, self.two, self.three)]


class KnownTests(TemporaryCase):
    def test_all_know_it_until_its_connection_ends(self) -> None:
        session = make(self.two)
        self.assertEqual(self.known(), [["t"]] * 3)
        self.assertTrue(self.three.world.queue("t").definition.temporary)
        self.three.session().publish(b"1", "t")
        self.assertEqual(self.three.world.queue("t").message_count, 1)
        session.peer.lose()
        self.assertEqual(self.known(), [[], [], []])
        self.assertEqual([node.addresses for node in self.net.nodes.values()], [[], [], []])
        self.assertNotIn("append", self.net.requests)

    def test_its_client_may_delete_it(self) -> None:
        make(self.two).ok(wire.DeleteQueue("t"))
        self.assertEqual(self.known(), [[], [], []])

    def test_subscriptions_and_queues_of_other_brokers_are_none(self) -> None:
        session = self.two.session()
        session.ok(wire.CreateAddress("topic", (0,), True, True))
        session.ok(wire.CreateQueueV2("topic", "sub", durable=False, temporary=True, routing_type=0))
        user = self.two.world.configuration.cluster_user
        link = self.two.world.peer().open(username=user)
        link.ok(wire.CreateQueueV2("reply", "reply", durable=False, temporary=True, routing_type=1))
        self.assertEqual(self.known(), [[], ["reply", "sub"], []])

    def test_who_is_linked_later_knows_them_too(self) -> None:
        self.patch(temporary, "TOLD_MAX", 1)
        self.net.cut_off(self.three)
        for name in ("t", "u", "v"):
            make(self.two, name)
        self.net.link_all(self.three)
        self.assertEqual(self.known(), [["t", "u", "v"]] * 3)

    def test_one_whose_end_was_not_told_ends_with_the_next_link(self) -> None:
        session = make(self.two)
        self.known()
        self.net.cut(self.two, self.three)
        session.peer.lose()
        self.assertEqual(self.known(), [[], [], ["t"]])
        self.net.link(self.two, self.three)
        self.assertEqual(self.known(), [[], [], []])

    def test_a_member_that_cannot_be_told(self) -> None:
        self.patch(self.three.shared.operations, "_answers", {})
        make(self.two)
        self.assertEqual(self.known(), [["t"], ["t"], []])

    def test_what_is_no_temporary_destination_is_refused(self) -> None:
        for form in (
            {},
            {"name": "q", "address": "q", "since": 1},
            {"name": "q", "address": "a", "temporary": True, "since": 1},
            {"since": 1},
        ):
            with self.assertRaises(Exception):  # noqa: B017
                self.one.answer("temporary", ["node", {"made": [form], "ended": [], "names": None}])
        self.assertEqual(self.one.queues, [])

    def test_a_queue_of_that_name_that_is_there(self) -> None:
        self.three.session().ok(wire.CreateQueueV2("t", "t", durable=True, routing_type=1, auto_created=True))
        make(self.two)
        self.assertEqual(self.known(), [["t"]] * 3)


class LinkTests(TemporaryCase):
    """A broker whose client consumes from its temporary destination consumes at all others, too, and may have to make the queue there."""

    def link(self, node: Node) -> Session:
        peer = node.world.peer()
        configuration = node.world.configuration
        peer.send(wire.ClusterConnect(configuration.cluster_user, configuration.cluster_password), CLUSTER_CHANNEL)
        peer.read()
        return peer.open(username=configuration.cluster_user)

    def test_a_link_takes_no_destination_over(self) -> None:
        make(self.two)
        self.known()
        self.link(self.three).error(wire.CreateQueueV2("t", "t", durable=False, temporary=True, routing_type=1))
        self.assertEqual(self.three.shared.temporary._at(self.two.node_id), ["t"])

    def test_one_that_a_link_has_made_does_not_end_with_the_link(self) -> None:
        self.three.deaf.add("temporary")
        make(self.two)
        self.known()
        link = self.link(self.three)
        link.ok(wire.CreateQueueV2("t", "t", durable=False, temporary=True, routing_type=1))
        self.three.deaf.clear()
        self.net.cut(self.two, self.three)
        self.net.link(self.two, self.three)
        self.known()
        link.peer.lose()
        self.assertEqual(self.known(), [["t"]] * 3)


class ReturningTests(TemporaryCase):
    def restart(self, *, crash: bool) -> None:
        make(self.two)
        self.known()
        self.two.restart(crash=crash)
        self.net.link_all(self.two)

    def test_it_outlives_a_restart_of_its_home(self) -> None:
        for crash in (True, False):
            self.setUp()
            self.restart(crash=crash)
            self.assertEqual(self.known(), [["t"]] * 3)
            self.two.session().publish(b"1", "t")
            session = make(self.two)
            self.assertEqual(self.two.world.queue("t").message_count, 1)
            self.net.settle(KEPT_SECONDS + 1)
            self.assertEqual(self.known(), [["t"]] * 3)
            session.peer.lose()
            self.assertEqual(self.known(), [[], [], []])

    def test_it_ends_everywhere_when_its_connection_does_not_come_back(self) -> None:
        self.restart(crash=True)
        self.net.settle(KEPT_SECONDS - 1)
        self.assertEqual(self.known(), [["t"]] * 3)
        self.net.settle(2)
        self.assertEqual(self.known(), [[], [], []])

    def test_those_that_nobody_comes_back_to_end_in_their_order(self) -> None:
        names = [f"t{number}" for number in range(12)]
        for name in names:
            make(self.two, name)
        self.known()
        self.two.restart(crash=True)
        ended: list[str] = []
        self.two.world.messaging.core.queue_deleted.subscribe(lambda queue: ended.append(queue.name))
        self.net.settle(KEPT_SECONDS + 1)
        self.assertEqual(ended, names)

    def test_it_ends_elsewhere_when_its_home_does_not_come_back(self) -> None:
        make(self.two)
        self.known()
        self.two.stop(crash=True)
        self.net.settle(KEPT_SECONDS - 1)
        self.assertEqual((self.one.queues, self.three.queues), (["t"], ["t"]))
        self.net.settle(2)
        self.assertEqual((self.one.queues, self.three.queues), ([], []))

    def test_it_ends_where_the_link_to_its_home_was_never_up(self) -> None:
        """The home tells of its destinations over the link that it has made itself, and dies before the other one is up."""
        self.net.cut_off(self.two)
        make(self.two)
        assert self.two.store is not None
        form = json.loads(self.two.store.settings["imq-temporary", "t"])
        self.one.answer("temporary", [self.two.world.server.node_id, {"made": [form], "ended": [], "names": None}])
        self.two.stop(crash=True)
        self.net.settle(KEPT_SECONDS - 1)
        self.assertEqual(self.one.queues, ["t"])
        self.net.settle(2)
        self.assertEqual(self.one.queues, [])

    def test_a_client_may_come_back_to_another_broker(self) -> None:
        make(self.two)
        self.known()
        self.two.stop(crash=True)
        self.three.session().publish(b"1", "t")
        self.net.settle(1)
        session = make(self.three)
        self.assertEqual(self.three.world.queue("t").message_count, 1)
        self.net.settle(KEPT_SECONDS + 1)
        self.assertEqual((self.one.queues, self.three.queues), (["t"], ["t"]))
        self.two.start()
        self.net.link_all(self.two)
        self.net.settle(KEPT_SECONDS + 1)
        self.assertEqual(self.known(), [["t"]] * 3)
        session.peer.lose()
        self.assertEqual(self.known(), [[], [], []])

    def test_also_before_its_old_connection_has_ended(self) -> None:
        old = make(self.two)
        self.known()
        self.net.settle(1)
        new = make(self.three)
        self.known()
        old.peer.lose()
        self.assertEqual(self.known(), [["t"]] * 3)
        new.peer.lose()
        self.assertEqual(self.known(), [[], [], []])

    def moved(self) -> tuple[Session, Session]:
        """The client is at the third broker, and the second one has not noticed yet that its connection has gone."""
        old = make(self.two)
        self.known()
        self.net.settle(1)
        return old, make(self.three)

    def test_it_ends_at_the_new_broker_before_the_old_connection_has_ended(self) -> None:
        for linked in (True, False):
            with self.subTest(linked=linked):
                self.setUp()
                old, new = self.moved()
                self.net.settle()
                if not linked:
                    self.net.cut(self.two, self.three)
                new.peer.lose()
                self.net.settle()
                self.net.link(self.two, self.three)
                self.net.settle()
                old.peer.lose()
                self.assertEqual(self.known(), [[], [], []])

    def test_the_new_broker_is_lost_before_the_old_connection_has_ended(self) -> None:
        old, _ = self.moved()
        self.net.settle()
        self.three.stop(crash=True)
        old.peer.lose()
        self.net.settle(KEPT_SECONDS + 1)
        self.assertEqual((self.one.queues, self.two.queues), ([], []))

    def test_one_that_cannot_be_made_any_more_is_forgotten(self) -> None:
        make(self.two)
        self.two.stop(crash=True)
        assert self.two.store is not None
        self.two.store.settings["imq-temporary", "t"] = '{"name": "t", "address": "u", "temporary": true, "since": 1}'
        self.two.start()
        self.assertEqual(self.two.queues, [])
        self.assertNotIn(("imq-temporary", "t"), self.two.store.settings)


class InheritedTests(TemporaryCase):
    """Those of a broker that another one has taken over."""

    def taken_over(self) -> dict[str, str]:
        """The second broker is gone, and what its store has of its destinations is the first one's."""
        make(self.two)
        self.known()
        assert self.two.store is not None
        kept = {name: text for (kind, name), text in self.two.store.settings.items() if kind == temporary.KIND}
        self.two.stop(crash=True)
        self.net.settle()
        assert self.one.store is not None
        self.one.store.settings.update({(temporary.KIND, name): text for name, text in kept.items()})
        self.one.world.server.turn.run(self.one.shared.temporary.inherit, kept)
        return kept

    def test_they_wait_for_their_clients_at_the_taker(self) -> None:
        self.assertEqual(list(self.taken_over()), ["t"])
        self.net.clock.advance(KEPT_SECONDS - 1)
        self.assertEqual(self.one.queues, ["t"])
        self.net.clock.advance(2)
        self.net.settle()
        self.assertEqual((self.one.queues, self.three.queues), ([], []))
        assert self.one.store is not None
        self.assertNotIn((temporary.KIND, "t"), self.one.store.settings)

    def test_a_client_that_comes_back_has_its_destination(self) -> None:
        self.taken_over()
        make(self.one)
        self.net.clock.advance(2 * KEPT_SECONDS)
        self.assertEqual(self.one.queues, ["t"])

    def test_a_record_that_cannot_be_read_is_left_out(self) -> None:
        assert self.one.store is not None
        self.one.store.settings[temporary.KIND, "x"] = "{}"
        self.one.world.server.turn.run(self.one.shared.temporary.inherit, {"x": "{}"})
        self.assertEqual(self.one.queues, [])
        self.assertNotIn((temporary.KIND, "x"), self.one.store.settings)
