"""The activation of a member of an enhanced cluster, and what it asks of an active broker."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.imq.definitions.temporary import KIND as TEMPORARY
from mqbroker.imq.enhanced.takeover import BehindError
from mqbroker.imq.master.standing import Standing
from mqbroker.messaging.ports import Inherited, Recovered
from mqbroker.node.enhanced import ActiveData, ActiveMember, EnhancedActivation, show
from mqbroker.server.observation.gauges import Gauges
from mqbroker.storage.sql.session import StoreSession
from mqclient.errors import IllegalStateError
from mqclient.wire import packets as wire
from tests.support.broker import World
from tests.unit.storage.sql.support import SqlRig


class PlayedMembership:
    """Keeps what it is asked for."""

    def __init__(self) -> None:
        self.told: list[Any] = []
        self.stamp_age_s = 2.5
        self.takeovers = 3
        self.takeovers_failed = 1

    def end(self, done: Any) -> None:
        self.told.append("end")
        done()

    def __getattr__(self, name: str) -> Any:
        return lambda *args: self.told.append((name, *args))


class ActivationTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.membership: Any = PlayedMembership()
        self.activation = EnhancedActivation(self.membership)
        self.failures: list[str] = []
        self.store: Any = SimpleNamespace(taken=True)
        claim: Any = SimpleNamespace(node_id="folder")
        self.lost = self.activation.watch_store(lambda: self.store, claim, self.failures.append)

    def active(self) -> None:
        server: Any = None
        self.activation.serve(server, self.store, {})

    def test_it_seeks_its_row_with_the_name_of_its_folder(self) -> None:
        candidate: Any = object()
        self.activation.seek(candidate)
        self.assertEqual(self.membership.told, [("seek", candidate, "folder")])

    def test_an_active_broker_whose_data_were_taken_begins_again(self) -> None:
        self.active()
        self.lost("taken")
        self.assertEqual((self.membership.told, self.failures), ([("begin_again", "taken")], []))

    def test_any_other_failure_is_one(self) -> None:
        self.lost("before it was active")
        self.active()
        self.store.taken = False
        self.lost("damaged")
        self.assertEqual((self.membership.told, self.failures), ([], ["before it was active", "damaged"]))

    def test_a_stop_says_whether_another_one_is_to_go_on(self) -> None:
        done: list[bool] = []
        self.active()
        self.activation.hand_over()
        self.activation.leave()
        self.activation.let_go(lambda: done.append(True))
        self.activation.hold_back()
        self.activation.cease()
        self.assertEqual(done, [True])
        self.assertEqual(self.membership.told, [("want_failover", True), ("leave",), "end", ("want_failover", False), "end"])


class PlayedTemporary:
    def __init__(self) -> None:
        self.inherited: list[Any] = []

    def inherit(self, settings: Any) -> None:
        self.inherited.append(settings)


class ActiveTests(SynchronousTestCase):
    def test_clients_are_refused_for_the_time_of_a_takeover(self) -> None:
        world = World()
        anything: Any = SimpleNamespace(members={"node": None})
        links: Any = anything
        looks: list[str] = []
        decisions = SimpleNamespace(look_everywhere=lambda: looks.append("looked"))
        delivery: Any = SimpleNamespace(coordination=SimpleNamespace(decisions=decisions))
        active = ActiveMember(world.server, anything, links, lambda: anything, lambda places: None, anything, lambda: delivery)
        active.refuse_clients("wait")
        self.assertEqual(world.server.admission.reason, "wait")
        active.refuse_clients(None)
        self.assertIsNone(world.server.admission.reason)
        self.assertEqual((list(active.linked()), active.has_clients(), active.node_id), (["node"], False, world.server.node_id))
        active.settle_branches()
        self.assertEqual(looks, ["looked"])

    def test_who_is_being_taken_over_has_no_links_here(self) -> None:
        """It may only stand still, and go on with transactions of which its taker would not know."""
        world = World()
        sessions = {}
        for node_id in ("lost", "other"):
            sessions[node_id] = world.session()
            sessions[node_id].send(wire.AddMetadataV2(wire.HOME_LINK_KEY, node_id, False))
        anything: Any = SimpleNamespace(part=lambda node_id: None)
        ActiveMember(world.server, anything, anything, lambda: anything, lambda places: None, anything, lambda: anything).part("lost")
        self.assertEqual([name for name, each in sessions.items() if each.peer.transport.closed], ["lost"])

    def test_what_the_store_has_taken_over_is_there_before_clients_may_come(self) -> None:
        order: list[Any] = []
        temporary: Any = PlayedTemporary()
        waiting: list[Any] = []
        store = SimpleNamespace(inherit=lambda sessions, done: waiting.append(done))
        server: Any = SimpleNamespace(store=store, messaging=SimpleNamespace(adopt=lambda recovered: order.append("adopted")))
        coordination = SimpleNamespace(restore=lambda: order.append("restored"))
        delivery: Any = SimpleNamespace(coordination=coordination)
        shared: Any = SimpleNamespace(temporary=temporary)
        data = ActiveData(server, shared, lambda: delivery)
        session = StoreSession(1, "node", "owner", 2)
        data.inherit([session], order.append)
        self.assertEqual(order, [])
        found = Recovered(settings={(TEMPORARY, "t"): "{}", ("another", "t"): "{}"})
        waiting[0](Recovered(inherited=[Inherited(found, lambda known: {})]), None)
        self.assertEqual((order, temporary.inherited), (["adopted", "restored", None], [{"t": "{}"}]))
        error = ValueError("damaged")
        data.inherit([session], order.append)
        waiting[1](None, error)
        self.assertEqual(order[3:], [error])

    def test_the_record_is_followed_as_far_as_the_lost_members_have(self) -> None:
        rig = SqlRig(self.addCleanup, broker_id="b1")
        rig.start()
        connection = rig.database.connect()
        self.addCleanup(connection.close)
        others = []
        for number, (generation, position) in enumerate((("g", 4), ("g", 7), ("g", 6), ("h", 9)), 2):
            other = SqlRig(self.addCleanup, number, database=rig.database, broker_id=f"b{number}")
            other.start()
            Standing(other.store, {}).follow(generation, (), position, "table")
            other.settle()
            others.append(other.store.session)
        world = World()
        standing = Standing(rig.store, {})
        reached: list[Any] = []
        recording = SimpleNamespace(come_to=lambda position, done: reached.append((position, done)))
        server: Any = SimpleNamespace(store=rig.store, turn=world.server.turn)
        shared: Any = SimpleNamespace(recording=recording)
        data = ActiveData(server, shared, lambda: shared)
        for position in (0, 5):
            if position:
                standing.follow("g", (), position, "table")
                rig.settle()
            self.assertEqual(self.assertRaises(BehindError, data.check, connection, others[:3]).position, 7)
        coming = data.come_to(7)
        standing.note(7)
        [(position, done)] = reached
        self.assertEqual(position, 7)
        world.server.turn.run(done, None)
        self.assertNoResult(coming)
        self.assertRaises(BehindError, data.check, connection, others)
        rig.settle()
        self.successResultOf(coming)
        data.check(connection, others)
        coming = data.come_to(8)
        reached[-1][1](IllegalStateError("away"))
        self.failureResultOf(coming, IllegalStateError)

    def test_the_metrics(self) -> None:
        gauges, membership = Gauges(), PlayedMembership()
        hide = show(gauges, membership)  # type: ignore[arg-type]
        self.assertEqual(
            {each.name: each.read() for each in gauges},
            {"imq.stamp.age": 2.5, "imq.takeovers": 3, "imq.takeovers.failed": 1},
        )
        hide()
        self.assertEqual(list(gauges), [])
