"""Who is in the cluster, and which of them this broker is."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from tests.unit.config.imq.support import PROPERTIES, Made


class MemberTests(SynchronousTestCase):
    def home(self, text: str, **others: object) -> tuple[object, ...]:
        made = Made(text, **others)  # type: ignore[arg-type]
        self.assertEqual(made.errors, [])
        return made.home.brokers, made.home.master, made.home.address, made.home.is_master

    def test_alone(self) -> None:
        self.assertEqual(self.home(""), (("here:7676",), None, "here:7676", False))
        self.assertEqual(self.home("imq.hostname=10.1.1.1\nimq.portmapper.port=7700")[0], ("10.1.1.1:7700",))

    def test_the_own_entry_of_the_list_is_found_by_name_or_address(self) -> None:
        expected = (("10.0.0.1:7676", "10.0.0.2:7676"), "10.0.0.1:7676", "10.0.0.1:7676", True)
        self.assertEqual(self.home("imq.cluster.brokerlist=10.0.0.1,10.0.0.2\nimq.cluster.masterbroker=10.0.0.1"), expected)
        self.assertEqual(self.home("imq.cluster.brokerlist=a,HERE")[2], "HERE:7676")

    def test_a_broker_outside_of_the_list_joins_it(self) -> None:
        self.assertEqual(self.home("imq.cluster.brokerlist=a,b"), (("a:7676", "b:7676", "here:7676"), None, "here:7676", False))

    def test_it_is_told_that_it_is_not_in_the_list(self) -> None:
        [warning] = Made("imq.cluster.brokerlist=a,b").warnings
        self.assertIn("here:7676, this broker, is not in the broker list", warning)

    def test_another_port_is_another_broker(self) -> None:
        text = "imq.cluster.brokerlist=localhost:1,localhost:2\nimq.portmapper.port=2\nimq.cluster.masterbroker=127.0.0.1:1"
        self.assertEqual(self.home(text), (("localhost:1", "localhost:2"), "localhost:1", "localhost:2", False))
        self.assertEqual(self.home("imq.cluster.brokerlist=localhost:1\nimq.portmapper.port=3")[0], ("localhost:1", "localhost:3"))

    def test_the_list_of_the_command_line_is_added(self) -> None:
        home = self.home("imq.cluster.brokerlist=here,b", options={"imq.cluster.brokerlist.manual": "b,c:1"})
        self.assertEqual(home[0], ("here:7676", "b:7676", "c:1"))

    def test_a_master_outside_of_the_list_is_added_and_told(self) -> None:
        made = Made("imq.cluster.brokerlist=here,b\nimq.cluster.masterbroker=c")
        self.assertEqual(made.home.brokers, ("here:7676", "b:7676", "c:7676"))
        self.assertEqual(made.warnings, [f"{PROPERTIES}:2: imq.cluster.masterbroker=c:7676 is not in the broker list: it is added"])

    def test_loopback_addresses_are_for_all_or_none(self) -> None:
        [error] = Made("imq.cluster.brokerlist=localhost:7677,b").errors
        self.assertIn("localhost:7677: a loopback address leads each broker to itself", error)
        [error] = Made("imq.hostname=b\nimq.cluster.brokerlist=localhost:7676,localhost:7677").errors
        self.assertIn("loopback addresses are allowed if all members have one", error)

    def test_entries_that_are_no_brokers_are_named(self) -> None:
        self.assertEqual(
            Made("imq.cluster.brokerlist=a:x\nimq.cluster.masterbroker=,").errors,
            [
                f"{PROPERTIES}:1: imq.cluster.brokerlist: 'a:x' is no broker: expected host:port",
                f"{PROPERTIES}:2: imq.cluster.masterbroker: ',' is no broker: expected host:port",
            ],
        )
