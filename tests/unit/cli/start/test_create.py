from __future__ import annotations

import errno
import os
from pathlib import Path
from unittest import mock

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.cli.start.instance_files import parse_destinations
from mqbroker.cli.status import BadUsage
from mqbroker.config.instance.instance import read_instance
from mqbroker.config.instance.jaas import parse_login_config
from mqbroker.config.masking import verify_password
from mqbroker.config.model.cluster import SharedStoreConfiguration
from mqbroker.config.model.configuration import Configuration
from mqbroker.config.model.database import DatabaseStoreConfiguration
from mqbroker.config.parse import load_configuration
from mqbroker.reachability import places_of, remarks_of
from mqclient.protocol.discovery import UdpEndpoint
from tests.unit.cli.runner import Result, mqbroker


class CreateCase(SynchronousTestCase):
    def create(self, *options: str) -> tuple[Path, Result]:
        folder = Path(self.mktemp()).absolute()
        login = () if "--user" in options else ("--user", "admin", "--password", 's<e&c"ret', "--require-login")
        return folder, mqbroker("create", str(folder), *login, *options)

    def loaded(self, folder: Path) -> Configuration:
        loaded = load_configuration(str(folder / "etc" / "broker.xml"), lambda path: Path(path).read_bytes(), {})
        self.assertEqual([str(warning) for warning in loaded.warnings], [])
        return loaded.configuration


class CreateTests(CreateCase):
    def test_a_full_disk_leaves_an_instance_as_it_was(self) -> None:
        folder, _ = self.create()
        broker_xml = folder / "etc" / "broker.xml"
        broker_xml.write_text("mine")
        before = sorted(folder.rglob("*"))
        write = os.open

        def full(path: Path, *arguments: int) -> int:
            if "login.config" in path.name:
                raise OSError(errno.ENOSPC, "No space left on device")
            return write(path, *arguments)

        with mock.patch("mqbroker.cli.start.create.os.open", full):
            result = mqbroker("create", str(folder), "--force", "--silent")
        self.assertEqual(result.status, 1)
        self.assertIn("No space left on device", result.err)
        self.assertEqual((broker_xml.read_text(), sorted(folder.rglob("*"))), ("mine", before))
        self.assertEqual(mqbroker("create", str(folder), "--force", "--silent").status, 0)
        self.assertIn("<configuration", broker_xml.read_text())

    def test_the_first_user_can_log_in(self) -> None:
        folder, _ = self.create()
        line = (folder / "etc" / "artemis-users.properties").read_text().splitlines()[-1]
        name, _, stored = line.partition(" = ")
        self.assertEqual(name, "admin")
        self.assertTrue(verify_password('s<e&c"ret', stored))
        modules = parse_login_config((folder / "etc" / "login.config").read_text())["activemq"]
        self.assertEqual(len(modules), 1)

    def test_anonymous_access_is_a_guest_with_the_rights_of_the_first_user(self) -> None:
        folder, _ = self.create("--user", "boss", "--password", "p", "--role", "ops", "--allow-anonymous")
        guest = parse_login_config((folder / "etc" / "login.config").read_text())["activemq"][1]
        self.assertTrue(guest.class_name.endswith("GuestLoginModule"))
        self.assertEqual(guest.options["org.apache.activemq.jaas.guest.role"], "ops")

    def test_an_instance_is_not_overwritten_without_force(self) -> None:
        folder, _ = self.create()
        again = ("create", str(folder), "--silent", "--name", "second")
        self.assertEqual(mqbroker(*again).status, 1)
        self.assertNotIn("second", (folder / "etc" / "broker.xml").read_text())
        self.assertEqual(mqbroker(*again, "--force").status, 0)
        self.assertIn("<name>second</name>", (folder / "etc" / "broker.xml").read_text())

    def test_variants_that_are_not_there_are_refused_before_anything_is_written(self) -> None:
        folder, result = self.create("--journal-retention", "7")
        self.assertEqual(result.status, 2)
        self.assertIn("not supported", result.err)
        self.assertFalse(folder.exists())

    def test_a_database(self) -> None:
        folder, result = self.create("--jdbc", "--jdbc-message-table-name", "M", "--jdbc-network-timeout", "7")
        self.assertEqual(result.status, 0, result.err)
        self.assertIn("Without effect here: --jdbc-message-table-name", result.out)
        found = self.loaded(folder).database_store
        self.assertEqual(found, DatabaseStoreConfiguration("jdbc:sqlite:data/mqbroker.db", network_timeout=7))
        url = "jdbc:postgresql://db.example/mq?user=u&password=p"
        folder, result = self.create("--jdbc", "--jdbc-connection-url", url)
        self.assertEqual(self.loaded(folder).database_store, DatabaseStoreConfiguration(url))

    def test_a_pair_on_one_database(self) -> None:
        options = ("--jdbc", "--shared-store", "--backup", "--silent", "--jdbc-lock-expiration", "6000", "--jdbc-lock-renew-period", "1000")
        folder, result = self.create(*options)
        self.assertEqual(result.status, 0, result.err)
        self.assertIn("need the same database, and data folders of their own", result.out)
        found = self.loaded(folder)
        assert found.shared_store is not None
        self.assertTrue(found.shared_store.backup)
        store = DatabaseStoreConfiguration("jdbc:sqlite:data/mqbroker.db", lock_expiration=6000, lock_renew_period=1000)
        self.assertEqual(found.database_store, store)

    def test_a_database_that_cannot_be(self) -> None:
        for options, expected in (
            (["--jdbc-connection-url", "jdbc:derby:x"], "Derby"),
            (["--disable-persistence"], "nothing is kept"),
            (["--replicated", "--cluster-user", "u", "--cluster-password", "p", "--host", "127.0.0.1"], "no files to copy"),
            (["--jdbc-lock-renew-period", "9", "--jdbc-lock-expiration", "9"], "9 ms is not less than jdbc-lock-expiration, 9 ms"),
        ):
            folder, result = self.create("--jdbc", *options)
            self.assertEqual((result.status, folder.exists()), (2, False), options)
            self.assertIn(expected, result.err)

    def test_hosts_to_ping(self) -> None:
        folder, result = self.create("--ping", "192.0.2.1,::2")
        self.assertEqual(result.status, 0, result.err)
        found = self.loaded(folder)
        self.assertEqual(found.network_check_list, "192.0.2.1,::2")
        self.assertEqual((found.network_check_period, found.network_check_timeout), (10000, 1000))
        self.assertEqual(list(remarks_of(found)), [])
        self.assertEqual(places_of(found).pings["192.0.2.1"], ["ping", "-c", "1", "-w", "1", "192.0.2.1"])
        self.assertEqual(self.loaded(self.create()[0]).checks_network, False)

    def test_hosts_that_cannot_be_pinged_are_refused(self) -> None:
        for hosts, text in (("127.0.0.1", "this broker itself"), ("a b", "neither a host name nor an address")):
            folder, result = self.create("--ping", hosts)
            self.assertEqual(result.status, 2)
            self.assertIn("--ping: ", result.err)
            self.assertIn(text, result.err)
            self.assertFalse(folder.exists())

    def test_a_cluster_found_by_multicast(self) -> None:
        folder, result = self.create("--clustered", "--host", "10.0.0.1", "--cluster-user", "cu", "--cluster-password", "c<p")
        self.assertEqual(result.status, 0, result.err)
        found = self.loaded(folder)
        self.assertEqual((found.cluster_user, found.cluster_password), ("cu", "c<p"))
        self.assertEqual([(uri.host, uri.port) for uri in found.connectors.values()], [("10.0.0.1", 61616)])
        (connection,) = found.cluster_connections
        self.assertEqual((connection.name, connection.connector_ref, connection.discovery_group), ("my-cluster", "artemis", "dg-group1"))
        self.assertEqual((connection.max_hops, connection.message_load_balancing), (1, "ON_DEMAND"))
        endpoint = UdpEndpoint("231.7.7.7", 9876)
        (broadcast,) = found.broadcast_groups
        self.assertEqual((broadcast.endpoint, broadcast.connectors, broadcast.broadcast_period), (endpoint, ("artemis",), 5000))
        self.assertEqual(found.discovery_groups["dg-group1"].endpoint, endpoint)

    def test_brokers_that_share_their_store(self) -> None:
        for options, expected in (
            (("--shared-store",), SharedStoreConfiguration(False)),
            (("--shared-store", "--backup"), SharedStoreConfiguration(True)),
            (("--shared-store", "--slave"), SharedStoreConfiguration(True)),
            (("--shared-store", "--failover-on-shutdown"), SharedStoreConfiguration(False, failover_on_shutdown=True)),
            (("--shared-store", "--backup", "--failover-on-shutdown"), SharedStoreConfiguration(True, failover_on_shutdown=True)),
        ):
            with self.subTest(options=options):
                data = str(Path(self.mktemp()).absolute())
                folder, result = self.create(*options, "--silent", "--data", data)
                self.assertEqual(result.status, 0, result.err)
                self.assertIn(f"--data {data}\n", result.out)
                found = self.loaded(folder)
                self.assertEqual((found.shared_store, found.scale_down), (expected, None))
                self.assertEqual([each.name for each in found.cluster_connections], ["my-cluster"])
                self.assertEqual(found.journal_directory, f"{data}/journal")

    def test_a_primary_and_a_replica(self) -> None:
        for options, expected in (
            (("--replicated",), "<primary><vote-on-replication-failure>true</vote-on-replication-failure></primary>"),
            (("--replicated", "--backup"), "<backup/>"),
        ):
            folder, result = self.create(*options, "--silent")
            self.assertEqual(result.status, 0, result.err)
            text = "".join((folder / "etc" / "broker.xml").read_text().split())
            self.assertIn("".join(f"<ha-policy><replication>{expected}</replication></ha-policy>".split()), text)
            self.assertIn("<cluster-connectionname=", text)

    def test_a_pair_that_makes_no_sense(self) -> None:
        for options, named in (
            (("--shared-store", "--replicated"), "--replicated"),
            (("--backup",), "--backup"),
            (("--shared-store", "--disable-persistence"), "--disable-persistence"),
            (("--replicated", "--disable-persistence"), "--disable-persistence"),
        ):
            with self.subTest(options=options):
                folder, result = self.create(*options, "--silent")
                self.assertEqual(result.status, 2)
                self.assertIn(named, result.err)
                self.assertFalse(folder.exists())

    def test_failover_on_shutdown_has_an_effect_with_a_shared_store_only(self) -> None:
        for options in ((), ("--replicated",)):
            folder, result = self.create(*options, "--failover-on-shutdown", "--silent")
            self.assertEqual((result.status, result.err), (0, "--failover-on-shutdown has no effect without --shared-store\n"))
            self.assertNotIn("failover-on-shutdown", (folder / "etc" / "broker.xml").read_text())
        _, result = self.create("--shared-store", "--failover-on-shutdown", "--silent")
        self.assertEqual((result.status, result.err), (0, ""))

    def test_a_cluster_of_known_brokers(self) -> None:
        urls = "tcp://h1:61616,tcp://h2:61617?sslEnabled=true&verifyHost=true"
        options = ("--static-cluster", urls, "--silent", "--max-hops", "2", "--message-load-balancing", "STRICT", "--port-offset", "5")
        folder, result = self.create(*options)
        self.assertEqual(result.status, 0, result.err)
        found = self.loaded(folder)
        (connection,) = found.cluster_connections
        self.assertEqual((connection.static_connectors, connection.discovery_group), (("node0", "node1"), None))
        self.assertEqual((connection.max_hops, connection.message_load_balancing), (2, "STRICT"))
        self.assertEqual(
            {name: (uri.host, uri.port) for name, uri in found.connectors.items()},
            {"artemis": ("localhost", 61621), "node0": ("h1", 61616), "node1": ("h2", 61617)},
        )
        self.assertEqual((found.cluster_user, found.cluster_password), ("cluster-admin", "password-admin"))
        self.assertEqual(found.broadcast_groups, [])

    def test_a_cluster_needs_an_address_a_user_and_usable_places(self) -> None:
        login = ("--cluster-user", "u", "--cluster-password", "p")
        for options, named in (
            (("--clustered", *login), "--host"),
            (("--clustered", "--host", "h"), "--cluster-user"),
            (("--clustered", "--host", "h", "--cluster-user", "u"), "--cluster-password"),
            (("--static-cluster", "nonsense", "--host", "h", *login), "--static-cluster"),
            (("--static-cluster", ",", "--host", "h", *login), "--static-cluster"),
        ):
            folder, result = self.create(*options)
            self.assertEqual(result.status, 2, options)
            self.assertIn(named, result.err)
            self.assertFalse(folder.exists())

    def test_options_of_java_are_accepted_and_named(self) -> None:
        _, result = self.create("--no-web", "--http-port", "9", "--java-options", "-Xa", "--java-options", "-Xb", "--no-amqp-acceptor")
        self.assertEqual(result.status, 0, result.err)
        self.assertIn("Without effect here: --no-amqp-acceptor, --no-web, --http-port, --java-options", result.out)

    def test_properties_among_the_options_of_java_hold_at_a_start(self) -> None:
        folder, result = self.create("--java-options", "-Dudp-address=231.7.7.9 -Xmx1G", "--java-options", "-Da=it's")
        self.assertIn("Without effect here: --java-options", result.out)
        properties = read_instance(str(folder), lambda path: Path(path).read_bytes(), {}).system_properties
        self.assertEqual((properties["udp-address"], properties["a"]), ("231.7.7.9", "it's"))
        folder, result = self.create("--java-options", "-Da=b", "--no-web")
        self.assertIn("Without effect here: --no-web\n", result.out)

    def test_a_password_is_needed_where_nobody_can_be_asked(self) -> None:
        folder = self.mktemp()
        self.assertEqual(mqbroker("create", folder, "--user", "a").status, 2)
        self.assertFalse(Path(folder).exists())

    def test_a_port_beyond_the_last(self) -> None:
        self.assertEqual(self.create("--port-offset", "60000")[1].status, 2)

    def test_routing_types_of_queues(self) -> None:
        self.assertEqual(parse_destinations("a, b:MULTICAST,", "--queues", "anycast"), [("a", "anycast"), ("b", "multicast")])
        self.assertRaises(BadUsage, parse_destinations, "a:often", "--queues", "anycast")


class MarkerTests(SynchronousTestCase):
    def stop(self, folder: Path, seen_after: int | None, *arguments: str, **environment: str) -> tuple[Result, int]:
        """The outcome of a stop that a broker sees after so many looks (None: never), and the number of looks."""
        marker = folder / "etc" / "STOP_ME"
        looks: list[float] = []

        def sleep(seconds: float) -> None:
            self.assertTrue(marker.exists())
            looks.append(seconds)
            if len(looks) == seen_after:
                marker.unlink()

        with mock.patch("mqbroker.cli.start.lifecycle.time.sleep", sleep):
            result = mqbroker("stop", *arguments, **environment)
        self.assertFalse(marker.exists())
        return result, len(looks)

    def test_stop_ends_when_the_broker_has_seen_it(self) -> None:
        folder = Path(self.mktemp())
        (folder / "etc").mkdir(parents=True)
        result, looks = self.stop(folder, 3, "--instance", str(folder))
        self.assertEqual((result.status, result.err, looks), (0, "", 3))

    def test_stop_of_a_stopped_broker_fails_and_leaves_nothing(self) -> None:
        folder = Path(self.mktemp())
        (folder / "etc").mkdir(parents=True)
        result, _ = self.stop(folder, None, "--instance", str(folder))
        self.assertEqual(result.status, 1)
        self.assertIn(f"no broker is running on {folder.resolve()}", result.err)

    def test_kill_leaves_a_marker(self) -> None:
        folder = Path(self.mktemp())
        (folder / "etc").mkdir(parents=True)
        bootstrap = f"xml:{folder}/etc/bootstrap.xml"
        self.assertEqual(mqbroker("kill", bootstrap).status, 0)
        self.assertTrue((folder / "etc" / "KILL_ME").exists())

    def test_the_instance_comes_from_the_environment_too(self) -> None:
        folder = Path(self.mktemp())
        (folder / "etc").mkdir(parents=True)
        self.assertEqual(self.stop(folder, 1, ARTEMIS_INSTANCE=str(folder))[0].status, 0)

    def test_what_is_no_instance(self) -> None:
        self.assertEqual(mqbroker("stop").status, 2)
        self.assertEqual(mqbroker("stop", "--instance", self.mktemp()).status, 2)
        self.assertEqual(mqbroker("run", "xml:/somewhere/broker.xml").status, 2)
