"""Values against the table: typed, without effect, or refused with a reason."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from tests.unit.config.imq.support import PROPERTIES, Made


class CheckTests(SynchronousTestCase):
    def refused(self, text: str) -> str:
        [error] = Made(text).errors
        return error

    def test_a_misspelt_property_names_the_nearest(self) -> None:
        self.assertEqual(
            self.refused("\nimq.cluster.brokerlst=a:1"),
            f"{PROPERTIES}:2: imq.cluster.brokerlst is not known; did you mean imq.cluster.brokerlist?",
        )

    def test_a_bad_value_says_what_is_expected(self) -> None:
        self.assertIn("imq.autocreate.queue=yes: expected true or false", self.refused("imq.autocreate.queue=yes"))
        self.assertIn("imq.portmapper.port=0: expected a whole number from 1 to 65535", self.refused("imq.portmapper.port=0"))

    def test_what_is_not_there_is_refused_with_the_reason(self) -> None:
        self.assertIn("imq.bridge.enabled=true is refused: there are none", self.refused("imq.bridge.enabled=true"))
        self.assertEqual(Made("imq.cluster.ha=false\nimq.cluster.nomasterbroker=false\nimq.persist.store=file").errors, [])

    def test_all_errors_are_reported_together(self) -> None:
        self.assertEqual(len(Made("imq.bridge.enabled=true\nimq.nothing=1\nimq.autocreate.topic=2").errors), 3)

    def test_what_asks_for_something_that_does_not_happen_is_told(self) -> None:
        [warning] = Made("imq.cluster.enforceRemoteDestinationLimit=true").warnings
        self.assertIn(f"{PROPERTIES}:1: imq.cluster.enforceRemoteDestinationLimit=true has no effect: limits hold", warning)
        self.assertEqual(Made("imq.cluster.enforceRemoteDestinationLimit=false").warnings, [])

    def test_ignored_values_that_would_change_something(self) -> None:
        asks = (
            "imq.cluster.port=7700",
            "imq.cluster.acktimeout=5",
            "imq.cluster.shutdownTimeout=60",
            "imq.transaction.autorollback=true",
            "imq.authentication.basic.user_repository=ldap",
            "imq.user_repository.ldap.server=ldap.example:389",
        )
        for line in asks:
            [warning] = Made(line).warnings
            self.assertIn(f"{line} has no effect: ", warning)
        usual = (
            "imq.cluster.port=0\nimq.cluster.acktimeout=180\nimq.cluster.shutdownTimeout=30\nimq.transaction.autorollback=false\n"
            "imq.authentication.basic.user_repository=file\nimq.user_repository.file.filename=passwd"
        )
        self.assertEqual(Made(usual).warnings, [])

    def test_what_changes_nothing_is_accepted(self) -> None:
        text = (
            "imq.log.file.rolloverbytes=1\nimq.cluster.heartbeat.interval=2\nimq.jms.max_threads=9\nimq.yellow.threshold=1\n.level=INFO\n"
        )
        made = Made(text + "java.util.logging.FileHandler.limit=1")
        self.assertEqual((made.errors, made.warnings), ([], []))

    def test_an_empty_value_is_as_none(self) -> None:
        made = Made("imq.cluster.masterbroker=\nimq.cluster.brokerlist=")
        self.assertEqual((made.errors, made.home.master), ([], None))

    def test_an_empty_value_leaves_the_default(self) -> None:
        made = Made("imq.portmapper.port=\nimq.autocreate.queue=\nimq.cluster.monitor.interval=\nimq.autocreate.destination.maxNumMsgs=")
        self.assertEqual((made.errors, made.home.address, made.home.autocreate_queue), ([], "here:7676", True))

    def test_secrets_are_not_shown(self) -> None:
        for line in ("imq.user_repository.ldap.password=hush", "imq.persist.jdbc.postgresql.property.sslpassword=hush"):
            [warning] = Made(line).warnings
            self.assertIn(f"{line.partition('=')[0]}=**** has no effect: ", warning)
