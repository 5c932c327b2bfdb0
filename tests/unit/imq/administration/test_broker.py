"""The broker by the commands of OpenMQ: shown, changed, quiesced and stopped."""

from __future__ import annotations

import json
from typing import Any

from twisted.internet.defer import Deferred, fail, succeed
from twisted.python.failure import Failure

from mqbroker.imq.administration.broker import LEAVE_SECONDS
from mqbroker.imq.enhanced.sides import Described
from mqbroker.imq.enhanced.takeover import TakeoverError
from mqbroker.messaging.turns.undecided import Undecided
from mqbroker.storage.shared.brokers import BrokerRow, State
from mqclient.errors import IllegalStateError
from tests.unit.config.imq.support import PROPERTIES
from tests.unit.imq.administration.support import ImqCase


class Unreadable(dict[str, str | bytes]):
    def __getitem__(self, path: str) -> str | bytes:
        if path == PROPERTIES:
            raise PermissionError(13, "Permission denied", path)
        return super().__getitem__(path)


class BrokerTests(ImqCase):
    text = "imq.cluster.brokerlist=here,b\nimq.cluster.masterbroker=b\nimq.keystore.password=secret\n"

    def test_members_that_are_not_linked_are_down(self) -> None:
        self.assertEqual(
            self.ask("listBrokers"),
            {
                "clusterID": "",
                "clusterIsHighlyAvailable": False,
                "brokers": [{"address": "here:7676", "state": "OPERATING"}, {"address": "B:7676", "state": "BROKER_DOWN"}],
            },
        )

    def test_everything_about_the_broker(self) -> None:
        shown = {title: value for group in self.ask("queryBroker") for title, value in group}
        self.actions.master = "b:7676"
        self.assertEqual((shown["Version"], shown["Instance Name"], shown["Primary Port"]), ("1.0", "b1", "7676"))
        self.assertEqual(shown["Cluster Broker List (configured)"], "mq://here:7676/,mq://B:7676/")
        self.assertEqual(shown["Cluster Broker List (active)"], "mq://here:7676/")
        self.assertEqual(shown["Max Number of Messages in System"], "unlimited (-1)")

    def test_where_properties_come_from(self) -> None:
        rows = {row["name"]: row for row in self.ask("listOrigins")}
        self.assertEqual(rows["imq.cluster.masterbroker"]["origin"], f"instance ({PROPERTIES}:2)")
        self.assertEqual((rows["imq.keystore.password"]["value"], rows["imq.portmapper.port"]["origin"]), ("****", "default"))
        self.assertEqual(rows["imq.cluster.ha"]["effect"], "honoured")

    def test_updates_are_written_into_the_file_of_the_instance(self) -> None:
        self.ask("updateBroker", '{"imq.autocreate.queue": "false"}')
        self.assertEqual(self.files.files[PROPERTIES], self.text + "imq.autocreate.queue=false\n")

    def test_updates_that_would_stop_the_next_start_are_refused(self) -> None:
        self.assertIn("Invalid attribute specified: imq.cluster.ha", self.refused("updateBroker", '{"imq.cluster.ha": "false"}'))
        self.assertIn("expected true or false", self.refused("updateBroker", '{"imq.autocreate.queue": "perhaps"}'))
        self.assertIn("cannot read the cluster file", self.refused("updateBroker", '{"imq.cluster.url": "file:/nowhere"}'))
        self.assertEqual(self.files.files[PROPERTIES], self.text)

    def test_an_update_keeps_what_is_not_utf_8(self) -> None:
        """Such a file is read as ISO 8859-1, as Java does."""
        self.files.files[PROPERTIES] = "imq.keystore.password=gr\u00fcn\n".encode("latin-1")
        self.ask("updateBroker", '{"imq.autocreate.queue": "false"}')
        self.assertEqual(self.files.files[PROPERTIES], "imq.keystore.password=gr\u00fcn\nimq.autocreate.queue=false\n")

    def test_a_file_that_cannot_be_read_is_not_replaced(self) -> None:
        self.files.files = Unreadable()
        self.assertIn(f"{PROPERTIES} cannot be read: Permission denied", self.refused("updateBroker", '{"imq.autocreate.queue": "false"}'))
        self.assertEqual(len(self.files.files), 0)

    def test_without_security_it_is_not_quiesced(self) -> None:
        self.assertIn("nobody could end it", self.refused("quiesce"))

    def test_quiesced_it_takes_no_clients_and_says_so(self) -> None:
        self.world.security.enabled = True
        self.ask("quiesce")
        self.assertEqual(self.ask("listBrokers")["brokers"][0]["state"], "QUIESCE_COMPLETE")
        self.assertEqual(self.world.server.admission.reason, "the broker is quiesced")
        self.ask("unquiesce")
        self.assertEqual((self.resource.state, self.world.server.admission.reason), ("OPERATING", None))

    def test_the_quiesce_is_complete_when_clients_and_what_a_stop_would_lose_are_gone(self) -> None:
        client = self.world.peer()
        session = client.open()
        session.create_queue("q")
        session.publish(durable=False)
        self.world.security.enabled = True
        self.ask("quiesce")
        self.assertEqual(self.resource.state, "QUIESCE_STARTED")
        client.lose()
        self.assertEqual(self.resource.state, "QUIESCE_STARTED", "the message would be lost")
        self.world.registry.invoke("queue.q", "removeAllMessages", ())
        self.assertEqual(self.resource.state, "QUIESCE_COMPLETE")

    def test_a_shutdown_lets_who_asks_leave_first(self) -> None:
        self.ask("shutdown")
        self.assertEqual((self.stops, self.resource.state), ([], "SHUTDOWN_STARTED"))
        self.world.clock.advance(LEAVE_SECONDS)
        self.assertEqual(self.stops, ["stop"])

    def test_a_shutdown_may_be_put_off_and_moved(self) -> None:
        self.ask("shutdown", 60)
        self.assertEqual(self.world.server.admission.reason, "the broker is about to stop")
        self.ask("shutdown", "5")
        self.world.clock.advance(5)
        self.world.clock.advance(100)
        self.assertEqual(self.stops, ["stop"])
        self.assertIn("expected 0 to 86400", self.refused("shutdown", 86401))

    def test_a_restart(self) -> None:
        self.ask("restart")
        self.world.clock.advance(LEAVE_SECONDS)
        self.assertEqual(self.stops, ["restart"])


class ClusterTests(ImqCase):
    text = "imq.cluster.brokerlist=here,b\n"

    def test_a_reload_waits_for_the_members(self) -> None:
        self.assertRaises(Undecided, self.ask, "reloadCluster")
        self.assertRaises(Undecided, self.ask, "reloadCluster")
        self.assertEqual(self.actions.calls, ["reload"])
        self.actions.waiting.callback(None)
        self.assertIsNone(self.ask("reloadCluster"))

    def test_the_list_of_the_last_reload_is_shown(self) -> None:
        self.actions.brokers = ["here:7676", "c:1"]
        self.assertEqual([row["address"] for row in self.ask("listBrokers")["brokers"]], ["here:7676", "c:1"])

    def test_the_master_is_changed_by_the_cluster(self) -> None:
        request = ("changeMaster", json.dumps({"imq.cluster.masterbroker": "b"}))
        self.assertRaises(Undecided, self.ask, *request)
        self.assertEqual(self.actions.calls, ["change to B:7676"])
        self.actions.waiting.errback(Failure(IllegalStateError("NOT_ALLOWED")))
        self.assertEqual(str(self.assertRaises(IllegalStateError, self.ask, *request)), "NOT_ALLOWED")

    def test_a_change_without_a_master(self) -> None:
        for given in ("{}", '{"imq.cluster.masterbroker": "a:b"}'):
            self.assertIn("BAD_REQUEST", self.refused("changeMaster", given))
        self.assertIn("Invalid attribute specified: a", self.refused("changeMaster", '{"a": "b"}'))


class AloneTests(ImqCase):
    with_actions = False

    def test_a_broker_alone_has_no_cluster_to_change(self) -> None:
        self.assertEqual(self.refused("reloadCluster"), "this broker is in no cluster")
        self.assertEqual(self.refused("changeMaster", '{"imq.cluster.masterbroker": "b"}'), "this broker is in no cluster")


class EnhancedTests(ImqCase):
    """A member of an enhanced cluster."""

    text = (
        "imq.cluster.ha=true\nimq.cluster.clusterid=c\nimq.brokerid=b1\nimq.persist.store=jdbc\n"
        "imq.persist.jdbc.opendburl=jdbc:sqlite:/mq.db\n"
    )

    def setUp(self) -> None:
        super().setUp()
        self.membership: Any = PlayedMembership()
        self.actions.membership = self.membership

    def test_the_members_with_their_states(self) -> None:
        row = BrokerRow("b2", "c", "b:7676", "n", "1", State.FAILOVER_COMPLETE, "b1", 5, "", "")
        self.membership.described = [Described(row, row.state, 3, 61_000)]
        shown = self.ask("listBrokers")
        self.assertEqual((shown["clusterIsHighlyAvailable"], shown["brokerID"]), (True, "b1"))
        expected = {"brokerID": "b2", "address": "b:7676", "state": "TAKEOVER_COMPLETE", "messages": 3}
        self.assertEqual(shown["brokers"], [{**expected, "takeoverBrokerID": "b1", "statusAgeMs": 61_000}])

    def test_what_is_not_known_and_what_has_failed(self) -> None:
        row = BrokerRow("b2", "c", "b:7676", "n", "1", State.FAILOVER_STARTED, "b1", 5, "", "")
        self.membership.described = [Described(row, row.state, 3, 1, failed=True), Described(row, None, None, None)]
        shown = [(each["state"], each["messages"], each["statusAgeMs"]) for each in self.ask("listBrokers")["brokers"]]
        self.assertEqual(shown, [("TAKEOVER_FAILED", 3, 1), ("UNKNOWN", None, None)])

    def test_everything_about_the_broker(self) -> None:
        shown = {title: value for group in self.ask("queryBroker") for title, value in group}
        self.assertEqual((shown["Broker ID"], shown["Cluster is Highly Available"]), ("b1", "true"))

    def test_a_takeover(self) -> None:
        self.ask("takeOver", "b2")
        self.assertEqual(self.membership.told, [("take_over_broker", "b2")])
        self.membership.failure = TakeoverError("there is no broker b3")
        self.assertIn("ERROR: there is no broker b3", self.refused("takeOver", "b3"))

    def test_a_shutdown_lets_another_one_take_over_unless_it_is_not_to(self) -> None:
        self.ask("shutdown", 0)
        self.ask("shutdown", 0, True)
        self.assertEqual(self.membership.told, [("want_failover", True), ("leave",), ("want_failover", False), ("leave",)])

    def test_elsewhere_there_are_no_takeovers(self) -> None:
        self.actions.membership = None
        self.assertIn("is no member of an enhanced cluster", self.refused("takeOver", "b2"))


class PlayedMembership:
    def __init__(self) -> None:
        self.told: list[Any] = []
        self.described: list[Described] = []
        self.failure: Exception | None = None

    def describe(self) -> Deferred[list[Described]]:
        return succeed(self.described)

    def take_over_broker(self, broker: str) -> Deferred[None]:
        self.told.append(("take_over_broker", broker))
        return succeed(None) if self.failure is None else fail(self.failure)

    def __getattr__(self, name: str) -> Any:
        return lambda *args: self.told.append((name, *args))
