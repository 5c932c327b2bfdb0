"""The databases of the own store, and of the change record of peers."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.model.configuration import Configuration
from mqbroker.config.model.database import DatabaseStoreConfiguration
from tests.unit.config.imq.support import CENTRAL, FOLDER, Made

PEERS = "imq.cluster.nomasterbroker=true\nimq.cluster.clusterid=c1\n"
RECORD = "imq.cluster.sharecc.persist.jdbc"
ON_POSTGRESQL = f"{RECORD}.dbVendor=postgresql\n{RECORD}.postgresql.opendburl=jdbc:postgresql://db:5432/mq\n"
JDBC = "imq.persist.store=jdbc\n"
JDBC_B1 = f"{JDBC}imq.brokerid=b1\n"


class StoreTests(SynchronousTestCase):
    def store(self, text: str) -> DatabaseStoreConfiguration:
        made = Made(JDBC_B1 + text)
        self.assertEqual(made.errors, [])
        found = made.configuration.database_store
        assert found is not None
        return found

    def refused(self, text: str) -> str:
        [error] = Made(JDBC_B1 + text).errors
        return error

    def test_messages_are_in_files_unless_something_is_said(self) -> None:
        made = Made("imq.persist.jdbc.dbVendor=mysql")
        self.assertEqual((made.errors, made.configuration.database_store, made.home.record), ([], None, None))

    def test_a_database_of_a_vendor(self) -> None:
        begin = "imq.persist.jdbc.postgresql"
        found = self.store(
            f"imq.persist.jdbc.dbVendor=PostgreSQL\n{begin}.opendburl=jdbc:postgresql://db/mq\n{begin}.user=u\n{begin}.password=p\n"
            f"{begin}.needpassword=true\n{begin}.driver=org.postgresql.Driver"
        )
        self.assertEqual((found.url, found.user, found.password), ("jdbc:postgresql://db/mq", "u", "p"))

    def test_a_file_is_relative_to_the_instance(self) -> None:
        found = self.store("imq.persist.jdbc.dbVendor=sqlite\nimq.persist.jdbc.sqlite.opendburl=jdbc:sqlite:data/mq.db")
        self.assertEqual(found.url, f"jdbc:sqlite:{FOLDER}/data/mq.db")

    def test_the_old_names_have_no_vendor(self) -> None:
        found = self.store("imq.persist.jdbc.opendburl=jdbc:postgresql://db/mq\nimq.persist.jdbc.user=u\nimq.persist.jdbc.password=p")
        self.assertEqual((found.vendor, found.user, found.password), ("postgresql", "u", "p"))

    def test_the_parts_of_a_data_source(self) -> None:
        begin = "imq.persist.jdbc.dbVendor=postgresql\nimq.persist.jdbc.postgresql.property"
        self.assertEqual(self.store(f"{begin}.url=jdbc:postgresql://db/mq").url, "jdbc:postgresql://db/mq")
        begin += ".databaseName=mq\nimq.persist.jdbc.postgresql.property"
        found = self.store(f"{begin}.serverName=db\nimq.persist.jdbc.postgresql.property.user=u")
        self.assertEqual((found.url, found.user), ("jdbc:postgresql://db:5432/mq", "u"))

    def test_other_databases_are_refused_by_name(self) -> None:
        self.assertIn("dbVendor: mysql is not supported: expected postgresql or sqlite", self.refused("imq.persist.jdbc.dbVendor=mysql"))
        self.assertIn("opendburl: oracle is not supported", self.refused("imq.persist.jdbc.opendburl=jdbc:oracle:thin:@h"))
        self.assertIn("opendburl: another text is not supported", self.refused("imq.persist.jdbc.opendburl=db"))

    def test_what_is_missing_is_named(self) -> None:
        self.assertIn("imq.persist.jdbc.dbVendor is missing", self.refused(""))
        self.assertIn("imq.persist.jdbc.sqlite.opendburl is missing", self.refused("imq.persist.jdbc.dbVendor=sqlite"))
        begin = "imq.persist.jdbc.dbVendor=postgresql\nimq.persist.jdbc.postgresql."
        self.assertIn("the database is missing", self.refused(f"{begin}opendburl=jdbc:postgresql://db"))
        self.assertIn("expected jdbc:postgresql:", self.refused(f"{begin}opendburl=jdbc:sqlite:x"))
        text = self.refused(f"{begin}opendburl=jdbc:postgresql://db/mq\nimq.persist.jdbc.postgresql.needpassword=true")
        self.assertIn("expected imq.persist.jdbc.postgresql.password, also in the passfile", text)

    def test_more_for_the_driver_has_no_effect(self) -> None:
        made = Made(f"{JDBC_B1}imq.persist.jdbc.opendburl=jdbc:sqlite:x\nimq.persist.jdbc.sqlite.property.ssl=true")
        self.assertEqual(len(made.warnings), 1)
        self.assertIn("imq.persist.jdbc.sqlite.property.ssl=true has no effect: write it into the URL", made.warnings[0])

    def test_the_properties_come_before_the_broker_xml(self) -> None:
        configuration = Configuration(
            cluster_user="u", cluster_password="p", database_store=DatabaseStoreConfiguration("jdbc:sqlite:/xml.db")
        )
        made = Made(f"{JDBC_B1}imq.persist.jdbc.opendburl=jdbc:sqlite:/own.db", configuration=configuration)
        self.assertEqual(made.configuration.database_store, DatabaseStoreConfiguration("jdbc:sqlite:/own.db"))

    def test_user_and_password_of_the_properties_come_before_those_of_the_broker_xml(self) -> None:
        def made(text: str) -> DatabaseStoreConfiguration | None:
            written = DatabaseStoreConfiguration("jdbc:postgresql://db/mq", "written", "there", network_timeout=5)
            configuration = Configuration(cluster_user="u", cluster_password="p", database_store=written)
            return Made(f"imq.brokerid=b1\n{text}", configuration=configuration).configuration.database_store

        self.assertEqual(made(""), DatabaseStoreConfiguration("jdbc:postgresql://db/mq", "written", "there", network_timeout=5))
        found = made("imq.persist.jdbc.user=me\nimq.persist.jdbc.password=secret")
        self.assertEqual(found, DatabaseStoreConfiguration("jdbc:postgresql://db/mq", "me", "secret", network_timeout=5))

    def test_a_database_that_others_may_have_needs_an_id(self) -> None:
        def with_xml(url: str) -> Configuration:
            return Configuration(cluster_user="u", cluster_password="p", database_store=DatabaseStoreConfiguration(url))

        for text, configuration in (
            (f"{JDBC}imq.persist.jdbc.opendburl=jdbc:postgresql://db/mq", None),
            (f"{JDBC}imq.persist.jdbc.opendburl=jdbc:sqlite:../mq.db", None),
            (f"{JDBC}imq.persist.jdbc.opendburl=jdbc:sqlite:/mq.db", None),
            ("", with_xml("jdbc:sqlite:../xml.db")),
        ):
            [error] = Made(text, configuration=configuration).errors
            self.assertIn("imq.brokerid is missing: other brokers may have their messages in this database, too", error)
        for text, url in (("imq.brokerid=b1", "jdbc:sqlite:../xml.db"), ("", "jdbc:sqlite:data/xml.db")):
            self.assertEqual(Made(text, configuration=with_xml(url)).errors, [])
        self.assertEqual(Made(f"{JDBC}imq.persist.jdbc.opendburl=jdbc:sqlite:data/mq.db").errors, [])


class RecordTests(SynchronousTestCase):
    def errors(self, text: str) -> list[str]:
        return Made(text).errors

    def test_a_cluster_of_peers(self) -> None:
        made = Made(
            f"{PEERS}{ON_POSTGRESQL}imq.cluster.brokerlist=here,b\n{RECORD}.connection.retry.max=3\n{RECORD}.connection.retry.delay=100"
        )
        record = made.home.record
        self.assertEqual((made.errors, record.cluster, record.create, record.retries, record.retry_s), ([], "c1", True, 3, 0.1))
        self.assertEqual(record.database.url, "jdbc:postgresql://db:5432/mq")
        self.assertEqual((made.home.finds_members, made.configuration.cluster_connections[0].static_connectors), (False, ("imq-b:7676",)))
        self.assertIsNone(made.configuration.database_store)

    def test_without_a_list_members_find_each_other(self) -> None:
        made = Made(PEERS + ON_POSTGRESQL)
        self.assertEqual((made.home.finds_members, made.configuration.cluster_connections[0].static_connectors), (True, None))

    def test_a_master_has_no_effect(self) -> None:
        made = Made(f"{PEERS}{ON_POSTGRESQL}imq.cluster.masterbroker=b:7676")
        self.assertEqual((made.errors, made.home.master), ([], None))
        self.assertIn("imq.cluster.masterbroker=b:7676 has no effect: with imq.cluster.nomasterbroker=true", made.warnings[0])

    def test_what_is_missing_is_named(self) -> None:
        [error] = self.errors(f"imq.cluster.nomasterbroker=true\n{ON_POSTGRESQL}")
        self.assertIn("imq.cluster.nomasterbroker=true needs imq.cluster.clusterid", error)
        [error] = self.errors(PEERS)
        self.assertIn(f"{RECORD}.dbVendor is missing", error)
        [error] = self.errors(PEERS.replace("c1", "c-1") + ON_POSTGRESQL)
        self.assertIn("imq.cluster.clusterid=c-1: expected the name of the cluster, of letters, digits and _", error)

    def test_a_file_is_one_for_all_brokers(self) -> None:
        begin = f"{PEERS}{RECORD}.dbVendor=sqlite\n{RECORD}.sqlite.opendburl=jdbc:sqlite:"
        [error] = self.errors(begin + "record.db")
        self.assertIn("record.db: expected a path that begins with / or ${imq.instanceshome}", error)
        record = Made(begin + "${imq.instanceshome}/../record.db").home.record
        self.assertEqual(record.database.url, "jdbc:sqlite:/var/imq/record.db")

    def test_the_database_of_the_messages_unless_another_is_named(self) -> None:
        store = f"{JDBC}imq.persist.jdbc.opendburl=jdbc:postgresql://db/mq\n"
        [error] = self.errors(PEERS + store)
        self.assertIn("imq.brokerid is missing: other brokers may have their messages in this database, too", error)
        home = Made(f"{PEERS}{store}imq.brokerid=b1").home
        self.assertEqual((home.record.database.url, home.broker_id), ("jdbc:postgresql://db/mq", "b1"))
        self.assertEqual(Made(f"{PEERS}{store}imq.brokerid=b1\n{ON_POSTGRESQL}").errors, [])
        [error] = self.errors(f"{PEERS}{store}imq.brokerid=b 1\n{ON_POSTGRESQL}")
        self.assertIn("imq.brokerid=b 1: expected a name that no other broker of the database has", error)

    def test_a_database_of_one_broker_alone_cannot_have_the_record(self) -> None:
        [error] = self.errors(f"{PEERS}{JDBC_B1}imq.persist.jdbc.opendburl=jdbc:sqlite:data/mq.db")
        self.assertIn("imq.cluster.nomasterbroker=true needs a database that all brokers reach", error)

    def test_what_they_share_may_be_in_the_cluster_file(self) -> None:
        made = Made(f"imq.cluster.url=file:{CENTRAL}", files={CENTRAL: PEERS + ON_POSTGRESQL})
        self.assertEqual((made.errors, made.home.record.cluster), ([], "c1"))

    def test_a_name_of_a_conventional_cluster_may_be_any_text(self) -> None:
        made = Made("imq.cluster.clusterid=my cluster")
        self.assertEqual((made.errors, made.home.cluster_id), ([], "my cluster"))
