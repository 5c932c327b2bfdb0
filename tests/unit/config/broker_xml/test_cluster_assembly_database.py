"""Brokers that share a database, in broker.xml: what each element means, or why it stops the start."""

from __future__ import annotations

from mqbroker.config.model.cluster import SharedStoreConfiguration
from mqbroker.config.model.database import DatabaseStoreConfiguration
from tests.unit.config.broker_xml.test_cluster_assembly import connection, connections
from tests.unit.config.test_parse import ConfigurationTestCase

URL = "jdbc:postgresql://h/mq"
CLUSTER = connections(connection(""))


def store(more: str = "") -> str:
    return f"<store><database-store><jdbc-connection-url>{URL}</jdbc-connection-url>{more}</database-store></store>"


def policy(inside: str, more: str = "") -> str:
    return f"{CLUSTER}{store(more)}<ha-policy>{inside}</ha-policy>"


class DatabaseTests(ConfigurationTestCase):
    def test_a_pair_has_one_with_the_times_of_its_leases(self) -> None:
        times = (
            "<jdbc-lock-expiration>9</jdbc-lock-expiration><jdbc-lock-renew-period>8</jdbc-lock-renew-period>"
            "<jdbc-allowed-time-diff>6</jdbc-allowed-time-diff>"
            "<jdbc-network-timeout>5</jdbc-network-timeout><node-manager-store-table-name>T</node-manager-store-table-name>"
        )
        found = self.configured(policy("<shared-store><backup/></shared-store>", times))
        self.assertEqual(found.shared_store, SharedStoreConfiguration(True))
        self.assertEqual(found.database_store, DatabaseStoreConfiguration(URL, None, None, 5, 9, 8, 6))

    def test_the_table_of_the_messages_tells_brokers_apart(self) -> None:
        for more, expected in (
            ("", ""),
            ("<message-table-name>MESSAGES</message-table-name>", ""),
            ("<message-table-name/><bindings-table-name>B</bindings-table-name>", ""),
            ("<message-table-name>ORDERS</message-table-name>", "table ORDERS"),
        ):
            self.assertEqual(self.configured(store(more)).broker_of_store, expected)

    def test_a_data_source_names_the_database(self) -> None:
        def source(more: str = "") -> str:
            listed = (("url", URL), ("username", "u"), ("password", "p"), ("maxTotal", "9"))
            inside = "".join(f'<data-source-property key="{key}" value="{value}"/>' for key, value in listed)
            named = "<data-source-class-name>a.B</data-source-class-name>"
            return f"<store><database-store>{named}<data-source-properties>{inside}</data-source-properties>{more}</database-store></store>"

        self.assertEqual(self.load(source()).configuration.database_store, DatabaseStoreConfiguration(URL, "u", "p"))
        class_name, other = self.warnings(source())
        self.assertIn("<data-source-class-name> (a.B) has no effect", class_name)
        self.assertIn("<data-source-property key=maxTotal> has no effect", other)
        url = f"<jdbc-connection-url>{URL}</jdbc-connection-url>"
        self.assert_error(source(url), "<data-source-property key=url> and <jdbc-connection-url> say the same: expected one of them")

    def test_how_long_a_backup_waits_is_not_said_in_the_store(self) -> None:
        more = "<jdbc-lock-acquisition-timeout>9</jdbc-lock-acquisition-timeout>"
        self.assert_warning(store(more), "<jdbc-lock-acquisition-timeout> (9) has no effect: write journal-lock-acquisition-timeout")
        self.configured(store(more.replace("9", "-1")))

    def test_defaults(self) -> None:
        found = self.configured(policy("<shared-store><primary/></shared-store>"))
        self.assertEqual(found.database_store, DatabaseStoreConfiguration(URL, None, None, 20_000, 20_000, 4_000, 250))

    def test_a_store_that_names_no_database(self) -> None:
        for inside in ("", "<jdbc-connection-url/>", "<jdbc-user>u</jdbc-user>"):
            self.assert_error(
                f"<store><database-store>{inside}</database-store></store>",
                "<database-store> lacks <jdbc-connection-url>: expected jdbc:sqlite:FILE or jdbc:postgresql://",
                "Derby",
            )

    def test_times_with_which_no_lease_lasts(self) -> None:
        for name in ("lock-expiration", "lock-renew-period"):
            self.assert_error(store(f"<jdbc-{name}>0</jdbc-{name}>"), f"<jdbc-{name}>: '0' is not valid")
        for times in (
            "<jdbc-lock-renew-period>20000</jdbc-lock-renew-period>",
            "<jdbc-lock-expiration>300</jdbc-lock-expiration>",
        ):
            self.assert_error(store(times), "<jdbc-lock-renew-period>: ", "is not less than jdbc-lock-expiration")

    def test_policies_that_need_folders(self) -> None:
        for inside, expected in (
            ("<replication><primary/></replication>", "<replication> cannot be used with a <database-store>: there are no files to copy"),
            ("<shared-store><colocated/></shared-store>", "<colocated> cannot be used with a <database-store>"),
        ):
            (found,) = self.errors(policy(inside))
            self.assertIn(expected, found)
