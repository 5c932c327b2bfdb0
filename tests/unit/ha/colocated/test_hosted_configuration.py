"""The configuration of a hosted backup: that of its host, with other places."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.model.cluster import (
    ClusterConnectionConfiguration,
    ColocatedConfiguration,
    ReplicationConfiguration,
    ScaleDownConfiguration,
    SharedStoreConfiguration,
)
from mqbroker.config.model.configuration import Configuration, MetricsConfiguration
from mqbroker.ha.colocated.hosted_configuration import FOLDERS, Hosted, HostingError, hosted_configuration
from mqclient.urls import parse_transport_uri

SHARED = SharedStoreConfiguration(True)
COPIED = ReplicationConfiguration(True)
THEIRS = {name: f"/theirs/{name}" for name in FOLDERS}
CONNECTION = ClusterConnectionConfiguration("c", "own", static_connectors=("other",))


def host(backup: Any = SHARED, connection: ClusterConnectionConfiguration = CONNECTION, **options: Any) -> Configuration:
    uris = {
        "own": "tcp://127.0.0.1:61616?tcpNoDelay=true",
        "other": "tcp://127.0.0.2:61616",
        "memory": "vm://3",
    }
    return Configuration(
        name="host",
        acceptors=[
            parse_transport_uri("tcp://0.0.0.0:61616", "a"),
            parse_transport_uri("vm://0", "b"),
            parse_transport_uri("tcp://0:0", "any"),
        ],
        connectors={name: parse_transport_uri(uri, name) for name, uri in uris.items()},
        cluster_connections=[connection],
        node_manager_lock_directory="/locks",
        metrics=MetricsConfiguration(),
        shared_store=SharedStoreConfiguration(False) if backup is SHARED else None,
        replication=ReplicationConfiguration(False, "g") if backup is not SHARED else None,
        colocated=ColocatedConfiguration(backup, **options),
    )


def hosted(configuration: Configuration, number: int = 1, in_process: int | None = None) -> Configuration:
    shared = configuration.shared_store is not None
    return hosted_configuration(configuration, Hosted(number, "node", THEIRS if shared else None), in_process)


class PlaceTests(SynchronousTestCase):
    def test_ports_and_numbers_are_offset(self) -> None:
        for number, offset, port, memory in ((1, 100, 61716, "100"), (2, 100, 61816, "200"), (1, 33, 61649, "33")):
            found = hosted(host(backup_port_offset=offset), number)
            self.assertEqual([(uri.port, uri.host) for uri in found.acceptors], [(port, "0.0.0.0"), (0, memory), (0, "0")])
            self.assertEqual(found.connectors["own"].port, port)
            self.assertEqual(found.connectors["own"].parameters, {"tcpNoDelay": "true", "activemqServerName": f"colocated_backup_{number}"})
            self.assertEqual(found.connectors["other"].port, port)
            self.assertEqual(found.connectors["memory"].host, str(3 + number * offset))

    def test_excluded_connectors_stay(self) -> None:
        configuration = host(excludes=("other",))
        found = hosted(configuration)
        self.assertEqual(found.connectors["other"], configuration.connectors["other"])
        self.assertEqual(found.connectors["own"].port, 61716)

    def test_a_port_that_is_too_high(self) -> None:
        error = self.assertRaises(HostingError, hosted, host(backup_port_offset=4000))
        self.assertIn("the port 61616 + 4000 is above 65535", str(error))

    def test_the_host_is_where_the_cluster_is_found(self) -> None:
        configuration = host()
        found = hosted(configuration)
        (connection,) = found.cluster_connections
        self.assertEqual((connection.connector_ref, connection.static_connectors), ("own", ("other", "own.host")))
        self.assertEqual(str(found.connectors["own.host"]), "tcp://127.0.0.1:61616")
        discovering = replace(CONNECTION, static_connectors=None, discovery_group="d")
        self.assertEqual(hosted(host(connection=discovering)).cluster_connections, [discovering])

    def test_the_configuration_of_the_host_stays(self) -> None:
        for backup in (SHARED, COPIED):
            configuration = host(backup)
            hosted(configuration)
            self.assertEqual(configuration, host(backup))

    def test_what_a_process_has_once(self) -> None:
        found = hosted(host())
        self.assertEqual((found.name, found.colocated, found.metrics, found.critical_analyzer), ("colocated_backup_1", None, None, False))


class PolicyTests(SynchronousTestCase):
    def test_a_shared_store(self) -> None:
        found = hosted(host())
        self.assertEqual({name: getattr(found, name) for name in FOLDERS}, THEIRS)
        self.assertIsNone(found.node_manager_lock_directory)
        self.assertEqual((found.shared_store, found.replication), (replace(SHARED, restart_backup=False), None))

    def test_replication(self) -> None:
        found = hosted(host(COPIED), 2)
        self.assertEqual(found.journal_directory, "data/journalcolocated_backup_2")
        self.assertEqual(found.bindings_directory, "data/bindingscolocated_backup_2")
        self.assertEqual(found.replication, replace(COPIED, node_id="node", restart_backup=False))
        self.assertIsNone(found.shared_store)

    def test_scale_down_without_a_target_goes_to_the_host(self) -> None:
        found = hosted(host(scale_down=ScaleDownConfiguration(group_name="g")), in_process=7)
        self.assertEqual(found.scale_down, ScaleDownConfiguration(group_name="g", connectors=("colocated_backup_1.host",)))
        self.assertEqual(str(found.connectors["colocated_backup_1.host"]), "vm://7")
        self.assertTrue(found.gives_away)
        for named in (ScaleDownConfiguration(connectors=("other",)), ScaleDownConfiguration(discovery_group="d")):
            self.assertEqual(hosted(host(scale_down=named), in_process=7).scale_down, named)
        self.assertEqual(hosted(host(scale_down=ScaleDownConfiguration())).scale_down, ScaleDownConfiguration())
        self.assertIsNone(hosted(host(), in_process=7).scale_down)

    def test_a_copy_that_has_given_everything_away_stays_to_say_so(self) -> None:
        for enabled in (True, False):
            found = hosted(host(COPIED, scale_down=ScaleDownConfiguration(enabled)))
            assert found.replication is not None
            self.assertEqual(found.replication.restart_backup, enabled)
        shared = hosted(host(scale_down=ScaleDownConfiguration())).shared_store
        assert shared is not None
        self.assertFalse(shared.restart_backup)
