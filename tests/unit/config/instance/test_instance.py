"""Instance folders: login.config, artemis.profile, and folders that ``artemis create`` 2.44.0 made."""

from __future__ import annotations

from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.instance.instance import BasicSecurity, Instance, JaasSecurity, read_instance
from mqbroker.config.model.cluster import ReplicationConfiguration, SharedStoreConfiguration
from mqbroker.config.parse import ConfigurationError, Loaded, load_configuration

FIXTURES = Path(__file__).parents[1] / "fixtures"
STANDALONE = Path(__file__).parents[4] / "config" / "standalone"


class CreatedFoldersTests(SynchronousTestCase):
    """Folders of the real tool: each starts, or is refused with a sentence."""

    def load(self, name: str) -> Loaded:
        return load_configuration(str(FIXTURES / name / "etc" / "broker.xml"), lambda path: Path(path).read_bytes(), {})

    def test_folders_that_start(self) -> None:
        for name in ("plain", "coreonly", "blocking", "nopersist", "queues", "ports", "nofsync", "ping", "paging"):
            with self.subTest(name=name):
                loaded = self.load(name)
                self.assertEqual(len(loaded.configuration.acceptors), 1)
                self.assertLessEqual(len(loaded.warnings), 7)

    def test_folders_of_clusters(self) -> None:
        for name, discovery, static in (("clustered", "dg-group1", None), ("static", None, 2)):
            with self.subTest(name=name):
                found = self.load(name).configuration
                (connection,) = found.cluster_connections
                self.assertEqual((connection.name, connection.connector_ref), ("my-cluster", "artemis"))
                self.assertEqual(connection.discovery_group, discovery)
                self.assertEqual(None if connection.static_connectors is None else len(connection.static_connectors), static)
                self.assertEqual(sorted(found.discovery_groups), [discovery] if discovery else [])

    def test_folders_that_are_refused(self) -> None:
        for name, expected in (
            ("jdbc", "a Derby database cannot be opened"),
            ("retention", "nothing keeps copies of the journal"),
        ):
            with self.subTest(name=name):
                self.assertIn(expected, str(self.assertRaises(ConfigurationError, self.load, name)))

    def test_a_shared_store(self) -> None:
        for name, backup in (("shared", False), ("sharedbackup", True)):
            found = self.load(name).configuration.shared_store
            self.assertEqual(found, SharedStoreConfiguration(backup, failover_on_shutdown=not backup))

    def test_a_replicated_pair(self) -> None:
        for name, backup in (("replicated", False), ("replbackup", True)):
            found = self.load(name).configuration.replication
            self.assertEqual(found, ReplicationConfiguration(backup, vote_on_replication_failure=True if not backup else None))

    def test_a_plain_folder(self) -> None:
        loaded = self.load("plain")
        found = loaded.configuration
        self.assertEqual(str(found.acceptors[0]), "tcp://0.0.0.0:61616")
        queues = {each.name: [queue.name for queue in each.queues] for each in found.addresses}
        self.assertEqual(queues, {"DLQ": ["DLQ"], "ExpiryQueue": ["ExpiryQueue"]})
        settings = found.address_settings_repository().lookup("orders")
        self.assertEqual(
            (settings.dead_letter_address, settings.expiry_address, settings.auto_delete_queues), ("DLQ", "ExpiryQueue", False)
        )
        permissions = found.security_repository().lookup("orders")
        self.assertEqual((permissions["send"], "view" in permissions), ({"amq"}, False))
        self.assertEqual((found.max_redelivery_records, found.large_messages_directory), (1, "data/large-messages"))
        told = " ".join(str(warning) for warning in loaded.warnings)
        for text in ("only CORE is spoken", "amqp is not opened", "stomp is not", "hornetq is not", "mqtt is not"):
            self.assertIn(text, told)
        self.assertEqual(len(loaded.warnings), 5)

    def test_a_folder_for_core_only(self) -> None:
        """Few words about a folder that asks for little."""
        self.assertEqual(len(self.load("coreonly").warnings), 1)

    def test_options(self) -> None:
        self.assertFalse(self.load("nopersist").configuration.persistence_enabled)
        self.assertFalse(self.load("nofsync").configuration.journal_datasync)
        blocking = self.load("blocking").configuration
        self.assertEqual((blocking.global_max_size, blocking.global_max_messages), (100 << 20, 5000))
        settings = blocking.address_settings_repository().lookup("x")
        self.assertEqual((settings.address_full_policy, settings.auto_create_queues), ("BLOCK", False))
        ports = self.load("ports").configuration.acceptors[0]
        self.assertEqual(str(ports), "tcp://127.0.0.1:61800")
        names = {each.name: each.routing_types for each in self.load("queues").configuration.addresses}
        self.assertEqual((names["a"], names["b"], names["c"], names["d"]), ({1}, {0}, {0}, {1}))

    def test_the_standalone_configuration(self) -> None:
        """What ``make run`` starts loads without a word."""
        loaded = load_configuration(str(STANDALONE / "broker.xml"), lambda path: Path(path).read_bytes(), {})
        self.assertEqual(loaded.warnings, [])
        self.assertEqual(str(loaded.configuration.acceptors[0]), "tcp://127.0.0.1:61616")
        self.assertTrue(loaded.configuration.journal_directory.startswith("data/"))


class InstanceTests(SynchronousTestCase):
    """An instance in memory, made of the files of the real tool."""

    def setUp(self) -> None:
        self.files: dict[str, bytes] = {}

    def put(self, fixture: str, folder: str) -> None:
        for path in (FIXTURES / fixture / "etc").iterdir():
            self.files[f"{folder}/etc/{path.name}"] = path.read_bytes()

    def edit(self, path: str, old: str, new: str) -> None:
        text = self.files[path].decode()
        self.assertIn(old, text)
        self.files[path] = text.replace(old, new).encode()

    def read_file(self, path: str) -> bytes:
        try:
            return self.files[path]
        except KeyError:
            raise FileNotFoundError(2, "No such file", path) from None

    def instance(self, folder: str = "/opt/brokers/plain", etc: str | None = None, **environment: str) -> Instance:
        return read_instance(folder, self.read_file, environment, etc=etc)

    def errors(self, folder: str = "/opt/brokers/plain") -> str:
        return str(self.assertRaises(ConfigurationError, self.instance, folder))

    def test_plain(self) -> None:
        self.put("plain", "/opt/brokers/plain")
        found = self.instance()
        self.assertEqual(found.security, JaasSecurity("activemq"))
        (module,) = found.login_config["activemq"]
        self.assertEqual((module.simple_name, module.flag), ("PropertiesLoginModule", "required"))
        self.assertEqual(module.options["org.apache.activemq.jaas.properties.user"], "artemis-users.properties")
        self.assertEqual((found.broker_xml, found.data), ("/opt/brokers/plain/etc/broker.xml", "/opt/brokers/plain/data"))
        self.assertEqual(found.web_bindings, ("http://localhost:8161",))
        self.assertIn("<web>", str(found.warnings[0]))
        loaded = found.load(self.read_file)
        self.assertEqual(loaded.configuration.journal_directory, "/opt/brokers/plain/data/journal")
        self.assertEqual(len(loaded.warnings), 6)

    def test_anonymous_access(self) -> None:
        self.put("plain", "/opt/brokers/plain")
        self.put("anon", "/opt/brokers/plain")
        modules = self.instance().login_config["activemq"]
        self.assertEqual(
            [(each.simple_name, each.flag) for each in modules],
            [("PropertiesLoginModule", "sufficient"), ("GuestLoginModule", "sufficient")],
        )
        self.assertEqual(modules[1].options["org.apache.activemq.jaas.guest.role"], "amq")

    def test_basic_security(self) -> None:
        self.put("plain", "/opt/brokers/basic")
        self.put("basic", "/opt/brokers/basic")
        security = self.instance("/opt/brokers/basic").security
        assert isinstance(security, BasicSecurity)
        self.assertEqual((security.properties["bootstrapUser"], security.properties["bootstrapRole"]), ("admin", "amq"))

    def test_a_moved_folder(self) -> None:
        """The absolute paths of the old place are taken to be below the new one, even if the old one is still there."""
        self.put("plain", "/new/place")
        self.put("coreonly", "/opt/brokers/plain")
        found = self.instance("/new/place")
        self.assertEqual((found.broker_xml, found.data), ("/new/place/etc/broker.xml", "/new/place/data"))
        self.assertIn("was moved from /opt/brokers/plain", str(found.warnings[0]))
        self.assertEqual(found.load(self.read_file).configuration.journal_directory, "/new/place/data/journal")

    def test_a_configuration_that_is_gone(self) -> None:
        self.put("plain", "/opt/brokers/plain")
        self.edit("/opt/brokers/plain/etc/bootstrap.xml", "file:/opt/brokers/plain/etc//broker.xml", "file:/gone/broker.xml")
        found = self.instance()
        self.assertEqual(found.broker_xml, "/opt/brokers/plain/etc/broker.xml")
        self.assertIn("there is no /gone/broker.xml", " ".join(map(str, found.warnings)))

    def test_a_configuration_elsewhere(self) -> None:
        self.put("plain", "/opt/brokers/plain")
        self.files["/else where/b.xml"] = self.files["/opt/brokers/plain/etc/broker.xml"]
        for url in ("file:/else%20where/b.xml", "file:///else%20where/b.xml", "${place}/b.xml"):
            self.edit("/opt/brokers/plain/etc/bootstrap.xml", 'configuration="', f'configuration="{url}" was="')
            self.assertEqual(self.instance(place="/else where").broker_xml, "/else where/b.xml")
            self.put("plain", "/opt/brokers/plain")

    def test_system_properties_of_the_profile(self) -> None:
        """``${…}`` in broker.xml is what JAVA_ARGS says."""
        self.put("nofsync", "/opt/brokers/nofsync")
        found = self.instance("/opt/brokers/nofsync")
        self.assertEqual(found.system_properties["udp-address"], "231.8.8.8")
        self.assertEqual(found.substitutions()["artemis.instance"], "/opt/brokers/nofsync")
        self.edit("/opt/brokers/nofsync/etc/broker.xml", "<name>0.0.0.0</name>", "<name>${udp-address:x}-${WHO}-${data.dir}</name>")
        found = self.instance("/opt/brokers/nofsync", WHO="me")
        self.assertEqual(found.load(self.read_file).configuration.name, "231.8.8.8-me-/opt/brokers/nofsync-data")

    def test_java_arguments_from_the_environment(self) -> None:
        self.put("plain", "/opt/brokers/plain")
        found = self.instance(JAVA_ARGS="-Da=1", JAVA_ARGS_APPEND="-Db=2")
        self.assertEqual((found.system_properties["a"], found.system_properties["b"]), ("1", "2"))
        self.assertNotIn("hawtio.realm", found.system_properties)

    def test_files_that_cannot_be_read_stop_the_start(self) -> None:
        """The broker would be another one without them."""
        read_file = self.read_file
        for name in ("broker.properties", "artemis.profile", "bootstrap.xml", "broker.xml", "login.config"):
            self.put("plain", "/opt/brokers/plain")
            self.files["/opt/brokers/plain/etc/broker.properties"] = b"name=over"
            path = f"/opt/brokers/plain/etc/{name}"

            def refuse(asked: str, path: str = path) -> bytes:
                if asked.replace("//", "/") == path:
                    raise PermissionError(13, "Permission denied", path)
                return read_file(asked)

            self.patch(self, "read_file", refuse)
            error = self.assertRaises(ConfigurationError, lambda: self.instance().load(self.read_file))
            self.assertIn("cannot", str(error))
            self.assertIn(path, str(error).replace("//", "/"))

    def test_broker_properties(self) -> None:
        self.put("plain", "/opt/brokers/plain")
        self.files["/opt/brokers/plain/etc/broker.properties"] = b"name=over\nacceptorConfigurations.artemis.params.port=7\n"
        found = self.instance().load(self.read_file).configuration
        self.assertEqual((found.name, found.acceptors[0].port), ("over", 7))

    def test_key_stores_are_below_the_instance(self) -> None:
        self.put("plain", "/opt/brokers/plain")
        self.edit(
            "/opt/brokers/plain/etc/broker.xml", "useEpoll=true;amqpCredits", "keyStorePath=etc/k.p12;trustStorePath=/t.p12;amqpCredits"
        )
        parameters = self.instance().load(self.read_file).configuration.acceptors[0].parameters
        self.assertEqual((parameters["keyStorePath"], parameters["trustStorePath"]), ("/opt/brokers/plain/etc/k.p12", "/t.p12"))

    def test_key_stores_may_lie_beside_the_configuration(self) -> None:
        """Artemis has etc on its class path."""
        self.put("plain", "/opt/brokers/plain")
        self.files |= {"/opt/brokers/plain/etc/k.jks": b"", "/opt/brokers/plain/etc/t.jks": b"", "/opt/brokers/plain/t.jks": b""}
        self.edit("/opt/brokers/plain/etc/broker.xml", "useEpoll=true;amqpCredits", "keyStorePath=k.jks;trustStorePath=t.jks;amqpCredits")
        parameters = self.instance().load(self.read_file).configuration.acceptors[0].parameters
        self.assertEqual(parameters["keyStorePath"], "/opt/brokers/plain/etc/k.jks")
        self.assertEqual(parameters["trustStorePath"], "/opt/brokers/plain/t.jks")

    def test_a_configuration_folder_elsewhere(self) -> None:
        self.put("plain", "/opt/brokers/plain")
        self.files = {path.replace("/opt/brokers/plain/etc/", "/etc/b/"): data for path, data in self.files.items()}
        self.edit("/etc/b/bootstrap.xml", "/opt/brokers/plain/etc//", "/etc/b//")
        self.files["/opt/brokers/plain/bin/artemis"] = b"#!/bin/sh\nARTEMIS_INSTANCE_ETC='/etc/b'\n"
        self.assertEqual(self.instance().broker_xml, "/etc/b/broker.xml")
        self.assertEqual(self.instance(etc="/etc/b").etc, "/etc/b")

    def test_no_instance(self) -> None:
        self.assertIn("this is not an instance folder", self.errors("/nowhere"))

    def test_mistakes(self) -> None:
        bootstrap, login = "/opt/brokers/plain/etc/bootstrap.xml", "/opt/brokers/plain/etc/login.config"
        for path, old, new, expected in (
            (bootstrap, 'domain="activemq"', 'domain="activmq"', "login.config has no entry activmq; did you mean activemq?"),
            (bootstrap, '<jaas-security domain="activemq"/>', "", "nothing says how users log in"),
            (bootstrap, '<jaas-security domain="activemq"/>', '<security-manager class-name="a.B"/>', "a.B is a Java class"),
            (bootstrap, "<broker ", "<broker><", "not well-formed"),
            (bootstrap, "file:/opt/brokers/plain/etc//broker.xml", "http://h/broker.xml", "expected file:/path/to/broker.xml"),
            (login, "required", "requird", "did you mean required?"),
        ):
            with self.subTest(new=new):
                self.put("plain", "/opt/brokers/plain")
                self.edit(path, old, new)
                self.assertIn(expected, self.errors())

    def test_misspelt_elements_are_told(self) -> None:
        self.put("plain", "/opt/brokers/plain")
        self.edit("/opt/brokers/plain/etc/bootstrap.xml", "<server ", "<sever ")
        self.assertIn("did you mean server?", " ".join(map(str, self.instance().warnings)))
