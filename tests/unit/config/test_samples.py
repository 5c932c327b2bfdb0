"""The configurations in ``config/``: they load without a word, and the brokers of a folder fit each other."""

from __future__ import annotations

import re
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.availability import settings_detection
from mqbroker.config.instance.broker_settings import BrokerSettings
from mqbroker.config.model.cluster import ClusterConnectionConfiguration, SharedStoreConfiguration
from mqbroker.config.model.configuration import Configuration
from mqbroker.config.parse import load_configuration
from mqbroker.config.properties.properties import parse_properties
from mqbroker.lock_managers import make_lock_manager
from mqbroker.settings import settings_from_instance
from mqclient.urls import parse_connection_url

CONFIG = Path(__file__).parents[3] / "config"
FOLDERS = ("cluster-chain", "cluster-discovery", "cluster-static", "cluster-symmetric", "cluster-with-artemis")
PAIR, REPLICATED, SCALE_DOWN, COLOCATED = "ha-shared-store", "ha-replication", "ha-scale-down", "ha-colocated"
LOCKED, COMPETING = ("ha-lock-file", "ha-zookeeper"), "ha-competing"
HA = (PAIR, REPLICATED, SCALE_DOWN, COLOCATED, *LOCKED, COMPETING)
LOOPBACK = "127.0.0.1"
HOMES, PEERS, ENHANCED = "imq-master", "imq-peers", "imq-enhanced"
DATABASE = "database-pair"


class SampleTests(SynchronousTestCase):
    def nodes(self, folder: str) -> dict[str, Configuration]:
        """The brokers of a folder by name."""
        found = {}
        for path in sorted((CONFIG / folder).glob("*/broker.xml")):
            loaded = load_configuration(str(path), lambda name: Path(name).read_bytes(), {})
            self.assertEqual(loaded.warnings, [], path)
            found[path.parent.name] = loaded.configuration
        return found

    def connection(self, configuration: Configuration) -> ClusterConnectionConfiguration:
        (found,) = configuration.cluster_connections
        return found

    def links(self, folder: str) -> dict[str, tuple[str, ...] | None]:
        """By broker: whom it is linked to."""
        return {name: self.connection(each).static_connectors for name, each in self.nodes(folder).items()}

    def test_every_folder_is_here(self) -> None:
        found = {path.name for kind in ("cluster", "ha", "imq") for path in CONFIG.glob(f"{kind}-*")}
        self.assertEqual(found, {*FOLDERS, *HA, HOMES, PEERS, ENHANCED})

    def test_the_brokers_of_a_folder_fit_each_other(self) -> None:
        for folder in FOLDERS:
            nodes = self.nodes(folder)
            self.assertEqual(len(nodes), 2 if folder == "cluster-with-artemis" else 3)
            listening = {name: str(each.acceptors[0]) for name, each in nodes.items()}
            self.assertEqual(len(set(listening.values())), len(nodes))
            self.assertEqual(len({(each.cluster_user, each.cluster_password) for each in nodes.values()}), 1)
            for name, each in nodes.items():
                with self.subTest(folder=folder, node=name):
                    self.assertEqual(each.name, name)
                    self.assertEqual(self.connection(each).connector_ref, name)
                    # A connector has the name of the broker that it leads to.
                    self.assertEqual({key: str(uri) for key, uri in each.connectors.items()}.items() - listening.items(), set())
                    self.assertEqual(each.address_settings_repository().lookup("any").redistribution_delay, 1000)
                    self.assertTrue(all(uri.host == LOOPBACK for uri in [*each.acceptors, *each.connectors.values()]))

    def test_the_shape_of_each_cluster(self) -> None:
        self.assertEqual(
            self.links("cluster-symmetric"), {"node0": ("node1", "node2"), "node1": ("node0", "node2"), "node2": ("node0", "node1")}
        )
        self.assertEqual(self.links("cluster-static"), {"node0": ("node1",), "node1": ("node0",), "node2": ("node0",)})
        self.assertEqual(self.links("cluster-chain"), {"node0": ("node1",), "node1": ("node2",), "node2": None})
        self.assertEqual(self.links("cluster-with-artemis"), {"mqbroker": ("artemis",), "artemis": ("mqbroker",)})
        chain = [self.connection(each) for each in self.nodes("cluster-chain").values()]
        self.assertEqual([each.max_hops for each in chain], [2, 2, 2])
        self.assertEqual([each.allow_direct_connections_only for each in chain], [True, True, False])

    def test_discovery_stays_on_this_machine(self) -> None:
        for each in self.nodes("cluster-discovery").values():
            (heard,) = each.discovery_groups.values()
            (told,) = each.broadcast_groups
            self.assertEqual(heard.endpoint, told.endpoint)
            self.assertEqual(getattr(told.endpoint, "local_bind_address", None), LOOPBACK)
            self.assertEqual(told.connectors, (each.name,))
            self.assertEqual(self.connection(each).discovery_group, heard.name)

    def test_a_pair_has_one_store(self) -> None:
        nodes = self.nodes(PAIR)
        primary, backup = nodes["primary"], nodes["backup"]
        for name in ("journal", "bindings", "large_messages", "paging"):
            folder = f"{name}_directory"
            self.assertEqual(getattr(primary, folder), getattr(backup, folder))
            self.assertTrue(getattr(primary, folder).startswith("../shared/"))
        self.assertEqual(
            [each.shared_store for each in (primary, backup)], [SharedStoreConfiguration(role, True) for role in (False, True)]
        )
        self.assertEqual(self.links(PAIR), {"primary": ("backup",), "backup": ("primary",)})
        for own, other in ((primary, backup), (backup, primary)):
            self.assertEqual(str(own.connectors[own.name]), str(other.connectors[own.name]))
            self.assertEqual(own.connectors[own.name].port, own.acceptors[0].port)
            self.assertEqual({uri.host for uri in [*own.acceptors, *own.connectors.values()]}, {LOOPBACK})

    def test_a_pair_has_one_database_and_folders_of_its_own(self) -> None:
        nodes = self.nodes(DATABASE)
        primary, backup = nodes["primary"], nodes["backup"]
        assert primary.database_store is not None
        self.assertEqual((primary.database_store, primary.database_store.url), (backup.database_store, "jdbc:sqlite:../pair.db"))
        self.assertFalse(primary.journal_directory.startswith(".."))
        self.assertEqual(
            [each.shared_store for each in (primary, backup)], [SharedStoreConfiguration(role, True) for role in (False, True)]
        )
        self.assertEqual(self.links(DATABASE), {"primary": ("backup",), "backup": ("primary",)})
        for each in (primary, backup):
            found = settings_detection(BrokerSettings(each, CONFIG), "")
            assert found is not None
            self.assertEqual((found.warnings, found.delays[0].seconds), ([], 6.5))

    def test_a_pair_has_copies_and_a_voter(self) -> None:
        nodes = self.nodes(REPLICATED)
        primary, backup = nodes["primary"].replication, nodes["backup"].replication
        assert primary is not None and backup is not None
        self.assertEqual((primary.backup, backup.backup, backup.allow_failback), (False, True, True))
        self.assertEqual((nodes["voter"].replication, nodes["voter"].shared_store), (None, None))
        self.assertEqual(
            self.links(REPLICATED), {"primary": ("backup", "voter"), "backup": ("primary", "voter"), "voter": ("primary", "backup")}
        )
        self.assertEqual(len({(each.cluster_user, each.cluster_password) for each in nodes.values()}), 1)
        for name, each in nodes.items():
            self.assertEqual((each.name, each.connectors[name].port), (name, each.acceptors[0].port))
            self.assertEqual({uri.host for uri in [*each.acceptors, *each.connectors.values()]}, {LOOPBACK})
            for other in nodes.values():
                self.assertEqual(str(each.connectors[name]), str(other.connectors[name]))

    def test_a_backup_scales_down_to_a_third_broker(self) -> None:
        nodes = self.nodes(SCALE_DOWN)
        self.assertEqual({name: each.gives_away for name, each in nodes.items()}, {"primary": False, "backup": True, "other": False})
        primary, backup = nodes["primary"], nodes["backup"]
        self.assertEqual(primary.journal_directory, backup.journal_directory)
        self.assertNotEqual(primary.journal_directory, nodes["other"].journal_directory)
        self.assertEqual({name: len(others or ()) for name, others in self.links(SCALE_DOWN).items()}, dict.fromkeys(nodes, 2))
        for name, each in nodes.items():
            self.assertEqual((each.name, each.connectors[name].port), (name, each.acceptors[0].port))
            self.assertEqual(len({str(other.connectors[name]) for other in nodes.values()}), 1)

    def test_pairs_with_a_lock_manager(self) -> None:
        for folder in LOCKED:
            nodes = self.nodes(folder)
            primary, backup = nodes["primary"].replication, nodes["backup"].replication
            assert primary is not None and backup is not None and primary.manager is not None
            self.assertEqual((primary.backup, backup.backup, backup.allow_failback), (False, True, True))
            self.assertEqual(primary.manager, backup.manager)
            self.assertIsNotNone(make_lock_manager(primary.manager))
            self.assertEqual(self.links(folder), {"primary": ("backup",), "backup": ("primary",)})

    def test_the_servers_of_zookeeper_are_those_that_the_brokers_look_for(self) -> None:
        policy = self.nodes("ha-zookeeper")["primary"].replication
        assert policy is not None and policy.manager is not None
        files = [path.read_text() for path in sorted((CONFIG / "ha-zookeeper").glob("*/zoo.cfg"))]
        ports = [re.findall(r"(?m)^clientPort=(\d+)$", text)[0] for text in files]
        self.assertEqual(policy.manager.properties["connect-string"], ",".join(f"{LOOPBACK}:{port}" for port in ports))
        [tick] = {int(found) for text in files for found in re.findall(r"(?m)^tickTime=(\d+)$", text)}
        self.assertIn(int(policy.manager.properties["session-ms"]), range(2 * tick, 20 * tick + 1))

    def test_competing_primaries_are_one_node(self) -> None:
        policies = [each.replication for each in self.nodes(COMPETING).values()]
        self.assertEqual(policies, [policies[0]] * 3)
        assert policies[0] is not None
        self.assertEqual((policies[0].backup, policies[0].coordination_id), (False, "c0ffee01"))
        self.assertEqual(self.links(COMPETING), {"one": ("two", "three"), "two": ("one", "three"), "three": ("one", "two")})

    def test_brokers_that_host_each_other(self) -> None:
        nodes = self.nodes(COLOCATED)
        self.assertEqual(self.links(COLOCATED), {"node0": ("node1",), "node1": ("node0",)})
        self.assertEqual(len({each.journal_directory for each in nodes.values()}), 2)
        for name, each in nodes.items():
            assert each.colocated is not None
            self.assertTrue(each.colocated.request_backup)
            self.assertEqual(each.colocated.excludes, self.links(COLOCATED)[name])
            self.assertEqual((each.name, each.connectors[name].port), (name, each.acceptors[0].port))
            self.assertEqual({uri.host for uri in [*each.acceptors, *each.connectors.values()]}, {LOOPBACK})

    def test_a_dead_broker_of_a_pair_is_replaced_soon(self) -> None:
        for folder in HA:
            nodes = self.nodes(folder)
            for name, node in nodes.items():
                result = settings_detection(BrokerSettings(node, CONFIG), "")
                if result is None:
                    self.assertIn(name, ("voter", "other"))
                    continue
                self.assertEqual(result.warnings, [], (folder, name))
                self.assertLess(max(delay.seconds for delay in result.delays), 5.0, (folder, name))

    def test_clients_find_them(self) -> None:
        for folder in (*FOLDERS, *HA):
            ports = {each.acceptors[0].port for each in self.nodes(folder).values()}
            entries = {entry.key: entry.value for entry in parse_properties((CONFIG / folder / "jndi.properties").read_bytes())}
            factories = [value for key, value in entries.items() if key.startswith("connectionFactory.")]
            self.assertTrue(factories)
            for url in factories:
                for uri in parse_connection_url(url).endpoints:
                    with self.subTest(folder=folder, url=str(uri)):
                        self.assertTrue(uri.port in ports if uri.scheme == "tcp" else (uri.host, uri.port) == ("231.7.7.7", 9876))

    def instances(self, folder: str, **environment: str) -> dict[str, BrokerSettings]:
        """The home brokers of a folder by name, which differ in their ports and nothing else."""
        folders = sorted(path.parents[1] for path in (CONFIG / folder).glob("*/etc/broker.xml"))
        made = {each.name: settings_from_instance(each, [], environment) for each in folders}
        self.assertEqual(list(made), ["b0", "b1", "b2"])
        for name, settings in made.items():
            configuration = settings.configuration
            self.assertEqual((configuration.name, list(settings.warnings)), (name, []))
            self.assertEqual({uri.host for uri in [*configuration.acceptors, *configuration.connectors.values()]}, {LOOPBACK})
        text = (CONFIG / folder / "README.md").read_text()
        self.assertIn(f"$ make run CONFIG=config/{folder}\n", text)
        listed = dict(re.findall(r"(?m)^\| `(\w+)` \| (\d+) \|$", text))
        self.assertEqual(listed, {name: str(each.configuration.acceptors[0].port) for name, each in made.items()})
        return made

    def test_peers_share_a_database(self) -> None:
        homes = [each.configuration.home_cluster for each in self.instances(PEERS).values()]
        records = {home.record for home in homes if home is not None}
        self.assertEqual([record and record.database.url for record in records], [f"jdbc:sqlite:{CONFIG.parent}/data/imq-peers/record.db"])
        self.assertEqual([home and (home.master, home.finds_members) for home in homes], [(None, True)] * 3)
        url = "jdbc:postgresql://127.0.0.1:5432/mq?user=mq&password=secret"
        homes = [each.configuration.home_cluster for each in self.instances(PEERS, MQBROKER_DATABASE=url).values()]
        self.assertEqual({home.record.database.url for home in homes if home is not None and home.record is not None}, {url})

    def test_home_brokers_share_a_cluster_file(self) -> None:
        homes = [each.configuration.home_cluster for each in self.instances(HOMES).values()]
        places = tuple(f"{LOOPBACK}:{port}" for port in (7676, 7677, 7678))
        self.assertEqual(
            [(home.brokers, home.master, home.address) for home in homes if home], [(places, places[0], own) for own in places]
        )

    def test_an_enhanced_cluster_is_on_sqlite_unless_a_variable_says_otherwise(self) -> None:
        folders = sorted(path.parents[1] for path in (CONFIG / ENHANCED).glob("*/etc/broker.xml"))
        for url in ("", "jdbc:postgresql://db/mq?user=u"):
            made = [settings_from_instance(folder, [], {"MQBROKER_DATABASE": url} if url else {}) for folder in folders]
            self.assertEqual([list(each.warnings) for each in made], [[], [], []])
            homes = [each.configuration.home_cluster for each in made]
            self.assertEqual(
                [home and (home.broker_id, home.address) for home in homes], [(f"b{n}", f"{LOOPBACK}:767{6 + n}") for n in range(3)]
            )
            [store] = {each.configuration.database_store for each in made}
            assert store is not None
            self.assertEqual(store.url, url or f"jdbc:sqlite:{CONFIG.parent}/data/imq-enhanced/mq.db")
        text = (CONFIG / ENHANCED / "README.md").read_text()
        self.assertIn(f"$ make run CONFIG=config/{ENHANCED}\n", text)

    def test_the_read_me_names_command_and_ports(self) -> None:
        for folder in (*FOLDERS, *HA):
            text = (CONFIG / folder / "README.md").read_text()
            self.assertIn(f"$ make run CONFIG=config/{folder}\n", text)
            listed = dict(re.findall(r"(?m)^\| `(\w+)` \| (\d+) \|$", text))
            self.assertEqual(listed, {name: str(each.acceptors[0].port) for name, each in self.nodes(folder).items()})
