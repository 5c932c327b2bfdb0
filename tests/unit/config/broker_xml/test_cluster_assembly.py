"""What broker.xml says about other brokers: what it means, and what is wrong with it."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path
from xml.sax.saxutils import quoteattr

from hypothesis import given
from hypothesis import strategies as st

from mqbroker.config.model.cluster import (
    BridgeConfiguration,
    BroadcastGroupConfiguration,
    ClusterConnectionConfiguration,
    DiscoveryGroupConfiguration,
    DivertConfiguration,
    GroupingHandlerConfiguration,
    LockManagerConfiguration,
    ReplicationConfiguration,
    ScaleDownConfiguration,
    SharedStoreConfiguration,
    TransformerConfiguration,
)
from mqbroker.config.model.configuration import Configuration
from mqbroker.config.parse import Loaded, load_configuration, parse_configuration
from mqbroker.config.problems import ConfigurationError
from mqclient.protocol.discovery import JGroupsEndpoint, UdpEndpoint
from tests.unit.config.test_parse import ConfigurationTestCase, document

CHAPTERS = Path(__file__).parents[1] / "fixtures" / "chapters"
CONNECTORS = (
    '<connectors><connector name="own">tcp://127.0.0.1:1</connector><connector name="first">tcp://127.0.0.1:2</connector>'
    '<connector name="second">tcp://127.0.0.1:3</connector></connectors>'
)
SECRET = "<cluster-user>u</cluster-user><cluster-password>p</cluster-password>"
GROUP = (
    '<discovery-groups><discovery-group name="dg"><group-address>231.7.7.7</group-address><group-port>9876</group-port>'
    "</discovery-group></discovery-groups>"
)
BASE = CONNECTORS + SECRET + GROUP
UDP = UdpEndpoint("231.7.7.7", 9876)


def connection(inside: str, name: str = "c", own: str = "<connector-ref>own</connector-ref>") -> str:
    return f'<cluster-connection name="{name}">{own}{inside}</cluster-connection>'


def connections(*each: str) -> str:
    return f"{BASE}<cluster-connections>{''.join(each)}</cluster-connections>"


def bridge(inside: str) -> str:
    return f'{BASE}<bridges><bridge name="b">{inside}</bridge></bridges>'


def broadcast(inside: str) -> str:
    return f'{BASE}<broadcast-groups><broadcast-group name="g">{inside}</broadcast-group></broadcast-groups>'


class ChapterTests(ConfigurationTestCase):
    """Each example of the chapter on clusters, as three versions of it print them."""

    NETTY = "".join(
        f'<connector name="{name}">tcp://127.0.0.1:{port}</connector>'
        for name, port in (("netty-connector", 1), ("server0-connector", 2), ("server1-connector", 3))
    )

    def example(self, path: Path) -> Loaded:
        text = path.read_text().replace("   ...\n", "   <connector-ref>netty-connector</connector-ref>\n")
        if text.startswith("<cluster-connection "):
            text = f"<cluster-connections>{text}</cluster-connections>"
        if "my-discovery-group" in text and "<discovery-group " not in text:
            text += GROUP.replace('"dg"', '"my-discovery-group"')
        return self.load(f"<connectors>{self.NETTY}</connectors>{text}")

    def test_every_example_is_read(self) -> None:
        paths = sorted(CHAPTERS.glob("*.xml"))
        self.assertEqual(len(paths), 16)
        for path in paths:
            with self.subTest(example=path.name):
                found = self.example(path).configuration
                same = found == Configuration(connectors=found.connectors)
                self.assertEqual(same, path.name == "first-credentials.xml")  # it prints the defaults

    def test_groups(self) -> None:
        expected = BroadcastGroupConfiguration(
            "my-broadcast-group", UdpEndpoint("231.7.7.7", 9876, "172.16.9.3", 5432), 2000, ("netty-connector",)
        )
        for name in ("first", "third"):
            found = self.example(CHAPTERS / f"{name}-broadcast-groups-udp.xml").configuration
            self.assertEqual(found.broadcast_groups, [expected])
        found = self.example(CHAPTERS / "first-discovery-groups-jgroups.xml").configuration
        endpoint = JGroupsEndpoint("activemq_broadcast_channel", "test-jgroups-file_ping.xml")
        self.assertEqual(found.discovery_groups, {"my-broadcast-group": DiscoveryGroupConfiguration("my-broadcast-group", endpoint)})

    def test_the_cluster_connection_in_three_spellings(self) -> None:
        for name, address in (("first", "jms"), ("second", "jms"), ("third", "")):
            expected = ClusterConnectionConfiguration(
                "my-cluster",
                "netty-connector",
                address,
                check_period=1000,
                connection_ttl=5000,
                min_large_message_size=50000,
                call_timeout=5000,
                call_failover_timeout=30000,
                max_retry_interval=5000,
                confirmation_window_size=32000,
                discovery_group="my-discovery-group",
            )
            self.assertEqual(self.example(CHAPTERS / f"{name}-cluster-connections.xml").configuration.cluster_connections, [expected])

    def test_members_named_one_by_one(self) -> None:
        for name, address in (("first", "jms"), ("second", "jms"), ("third", "")):
            (found,) = self.example(CHAPTERS / f"{name}-direct-connections-only.xml").configuration.cluster_connections
            expected = ClusterConnectionConfiguration(
                "my-cluster",
                "netty-connector",
                address,
                message_load_balancing="STRICT",
                static_connectors=("server1-connector",),
                allow_direct_connections_only=True,
            )
            self.assertEqual(found, expected)

    def test_default_credentials_are_told(self) -> None:
        self.assertIn("AMQ222007", str(self.example(CHAPTERS / "third-cluster-connections.xml").warnings))
        self.assertEqual(self.example(CHAPTERS / "first-credentials.xml").warnings, [])


class MeaningTests(ConfigurationTestCase):
    def test_defaults(self) -> None:
        found = self.configured(connections(connection("")))
        self.assertEqual(found.cluster_connections, [ClusterConnectionConfiguration("c", "own")])
        self.assertEqual(found.discovery_groups, {"dg": DiscoveryGroupConfiguration("dg", UDP)})

    def test_no_static_connectors_and_an_empty_list_differ(self) -> None:
        found = self.configured(connections(connection("<static-connectors/>"))).cluster_connections
        self.assertEqual(found[0].static_connectors, ())

    def test_connector_refs_in_every_spelling(self) -> None:
        for ref in (
            "<connector-ref>first</connector-ref>",
            '<connector-ref connector-name="first"/>',
            '<connector-ref connector-ref="first"/>',
            '<connector-ref connector-name="first">first</connector-ref>',
        ):
            with self.subTest(ref=ref):
                static = f"<static-connectors>{ref}</static-connectors>"
                (found,) = self.configured(connections(connection(static, own=ref))).cluster_connections
                self.assertEqual((found.connector_ref, found.static_connectors), ("first", ("first",)))

    def test_every_option_of_a_cluster_connection(self) -> None:
        (found,) = self.configured(
            connections(
                connection(
                    "<address>a,!a.b</address><check-period>1</check-period><connection-ttl>2</connection-ttl>"
                    "<min-large-message-size>3K</min-large-message-size><call-timeout>4</call-timeout>"
                    "<call-failover-timeout>5</call-failover-timeout><retry-interval>6</retry-interval>"
                    "<retry-interval-multiplier>1.5</retry-interval-multiplier><max-retry-interval>7</max-retry-interval>"
                    "<initial-connect-attempts>8</initial-connect-attempts><reconnect-attempts>9</reconnect-attempts>"
                    "<use-duplicate-detection>false</use-duplicate-detection>"
                    "<message-load-balancing>off_with_redistribution</message-load-balancing><max-hops>0</max-hops>"
                    "<confirmation-window-size>10</confirmation-window-size><producer-window-size>-1</producer-window-size>"
                    "<notification-interval>11</notification-interval><notification-attempts>12</notification-attempts>"
                    "<topology-scanner-attempts>-1</topology-scanner-attempts><client-id>id</client-id>"
                    "<scale-down-connector>x</scale-down-connector><discovery-group-ref discovery-group-name='dg'/>"
                )
            )
        ).cluster_connections
        expected = ClusterConnectionConfiguration(
            "c", "own", "a,!a.b", 1, 2, 3072, 4, 5, 6, 1.5, 7, 8, 9, False, "OFF_WITH_REDISTRIBUTION", 0, 10, -1, 11, 12, -1, "id", None,
            False, "dg",
        )  # fmt: skip
        self.assertEqual(found, expected)

    def test_a_cluster_connection_as_a_url(self) -> None:
        uri = '<cluster-connection-uri name="{}" address="{}"/>'
        parameters = "connectorName=own;messageLoadBalancingType=STRICT&amp;retryInterval=7;duplicateDetection=false"
        found = self.configured(
            connections(
                uri.format("m", f"multicast://dg?address=x;{parameters}"),
                uri.format("s", f"static://(tcp://127.0.0.1:7?tcpNoDelay=true,first)?address=y;{parameters}"),
            )
        )
        expected = ClusterConnectionConfiguration(
            "m", "own", "x", retry_interval=7, use_duplicate_detection=False, message_load_balancing="STRICT", discovery_group="dg"
        )
        self.assertEqual(found.cluster_connections[0], expected)
        self.assertEqual(found.cluster_connections[1].static_connectors, ("s.0", "first"))
        self.assertEqual((found.connectors["s.0"].port, found.connectors["s.0"].parameters), (7, {"tcpNoDelay": "true"}))

    def test_the_order_of_cluster_connections_is_kept(self) -> None:
        uri = '<cluster-connection-uri name="b" address="multicast://dg?connectorName=own;address=b"/>'
        found = self.configured(connections(uri, connection("<address>a</address>", "a")))
        self.assertEqual([each.name for each in found.cluster_connections], ["b", "a"])

    def test_diverts(self) -> None:
        found = self.configured(
            '<diverts><divert name="d"><address>a</address><forwarding-address>b, c</forwarding-address></divert>'
            '<divert name="e"><address>a</address><forwarding-address>b</forwarding-address><routing-name>r</routing-name>'
            '<exclusive>true</exclusive><routing-type>pass</routing-type><filter string="x=1"/>'
            '<transformer><class-name>a.B</class-name><property key="k" value="v"/></transformer></divert></diverts>'
        )
        expected = [
            DivertConfiguration("d", "a", ("b", "c")),
            DivertConfiguration("e", "a", ("b",), "r", True, "x=1", TransformerConfiguration("a.B", {"k": "v"}), "PASS"),
        ]
        self.assertEqual(found.diverts, expected)

    def test_filters_are_noted_to_be_checked(self) -> None:
        divert = "<divert name='d'><address>a</address><forwarding-address>b</forwarding-address><filter string='x ='/></divert>"
        self.assertEqual([each.text for each in self.load(f"<diverts>{divert}</diverts>").filters], ["x ="])

    def test_bridges(self) -> None:
        static = "<static-connectors><connector-ref>first</connector-ref><connector-ref>second</connector-ref></static-connectors>"
        (found,) = self.configured(bridge(f"<queue-name>q</queue-name>{static}")).bridges
        self.assertEqual(found, BridgeConfiguration("b", "q", static_connectors=("first", "second")))
        without = "<confirmation-window-size>-1</confirmation-window-size>"
        self.assertEqual(self.configured(bridge(f"<queue-name>q</queue-name>{without}{static}")).bridges[0].confirmation_window_size, -1)
        self.assertIn("'0' is not valid", self.errors(bridge(f"<queue-name>q</queue-name>{without.replace('-1', '0')}{static}"))[0])
        (found,) = self.configured(
            bridge(
                "<queue-name>q</queue-name><forwarding-address>f</forwarding-address><ha>true</ha><filter string='x=1'/>"
                "<min-large-message-size>1K</min-large-message-size><check-period>1</check-period><connection-ttl>2</connection-ttl>"
                "<retry-interval>3</retry-interval><retry-interval-multiplier>2</retry-interval-multiplier>"
                "<max-retry-interval>4</max-retry-interval><initial-connect-attempts>5</initial-connect-attempts>"
                "<reconnect-attempts>6</reconnect-attempts><reconnect-attempts-same-node>7</reconnect-attempts-same-node>"
                "<use-duplicate-detection>false</use-duplicate-detection><confirmation-window-size>8</confirmation-window-size>"
                "<producer-window-size>9</producer-window-size><pending-ack-timeout>10</pending-ack-timeout>"
                "<routing-type>STRIP</routing-type><concurrency>11</concurrency><client-id>id</client-id>"
                "<failover-on-server-shutdown>true</failover-on-server-shutdown>"
                "<user>u</user><password>ENC(-41e444c3ed07d6dd)</password><discovery-group-ref discovery-group-name='dg'/>"
            )
        ).bridges
        expected = BridgeConfiguration(
            "b", "q", "f", True, "x=1", None, (), "dg", "u", "secret", 1024, 1, 2, 30000, 3, 2.0, 4, 5, 6, 7, False, 8, 9, 10, "STRIP", 11,
            "id",
        )  # fmt: skip
        self.assertEqual(found, expected)
        self.assertNotIn("secret", repr(found))

    def test_old_transformer(self) -> None:
        divert = (
            "<divert name='d'><address>a</address><forwarding-address>b</forwarding-address>"
            "<transformer-class-name>a.B</transformer-class-name></divert>"
        )
        loaded = self.load(f"<diverts>{divert}</diverts>")
        self.assertEqual(loaded.configuration.diverts[0].transformer, TransformerConfiguration("a.B"))
        self.assertIn("write transformer", str(loaded.warnings[0]))

    def test_grouping_handler(self) -> None:
        handler = '<grouping-handler name="g"><type>{}</type><address>a</address><timeout>1</timeout></grouping-handler>'
        self.assertEqual(self.configured(handler.format("LOCAL")).grouping_handler, GroupingHandlerConfiguration("g", True, "a", timeout=1))
        self.assertEqual(self.configured(handler.format("remote")).grouping_handler.local, False)  # type: ignore[union-attr]

    def test_scale_down(self) -> None:
        joined = connections(connection(""))
        policies = ("<primary-only>{}</primary-only>", "<shared-store><backup>{}</backup></shared-store>")
        for policy in (*policies, "<replication><backup>{}</backup></replication>"):
            self.scale_down_in(f"<ha-policy>{policy}</ha-policy>", joined)

    def scale_down_in(self, policy: str, joined: str) -> None:
        for text, expected in (
            ("<scale-down/>", ScaleDownConfiguration()),
            ("<scale-down>true</scale-down>", ScaleDownConfiguration()),
            ("<scale-down>false</scale-down>", ScaleDownConfiguration(enabled=False)),
            (
                "<scale-down><group-name>g</group-name><commit-interval>5</commit-interval></scale-down>",
                ScaleDownConfiguration(True, 5, "g"),
            ),
            (
                "<scale-down><connectors><connector-ref>first</connector-ref></connectors></scale-down>",
                ScaleDownConfiguration(connectors=("first",)),
            ),
            (
                '<scale-down><enabled>false</enabled><discovery-group-ref discovery-group-name="dg"/></scale-down>',
                ScaleDownConfiguration(False, discovery_group="dg"),
            ),
            ("<scale-down><cluster-name>c</cluster-name></scale-down>", ScaleDownConfiguration(cluster_name="c")),
        ):
            with self.subTest(text=text, policy=policy):
                found = self.configured(joined + policy.format(text))
                self.assertEqual((found.scale_down, found.gives_away), (expected, expected.enabled and "<backup>" in policy))
        found = self.configured(joined + policy.format(""))
        self.assertEqual((found.scale_down, found.gives_away), (None, False))

    def test_shared_store(self) -> None:
        policy = "<ha-policy><shared-store>{}</shared-store></ha-policy>"
        switches = "<failover-on-shutdown>true</failover-on-shutdown><{0}>false</{0}>"
        for text, expected in (
            ("<primary/>", SharedStoreConfiguration(False, False, True)),
            ("<backup/>", SharedStoreConfiguration(True, False, True, allow_failback=True, restart_backup=True)),
            (f"<primary>{switches.format('wait-for-activation')}</primary>", SharedStoreConfiguration(False, True, False)),
            (f"<backup>{switches.format('allow-failback')}</backup>", SharedStoreConfiguration(True, True, allow_failback=False)),
            (f"<slave>{switches.format('restart-backup')}</slave>", SharedStoreConfiguration(True, True, restart_backup=False)),
            ("<master/>", SharedStoreConfiguration(False)),
        ):
            with self.subTest(text=text):
                self.assertEqual(self.load(policy.format(text)).configuration.shared_store, expected)
        loaded = self.load(policy.format("<slave><failback-delay>5</failback-delay></slave>"))
        self.assertIn("<slave> is an old element: write <backup>", str(loaded.warnings[0]))
        self.assertEqual(len(loaded.warnings), 1)

    def test_scale_down_by_the_names_of_the_chapter(self) -> None:
        text = (
            "<ha-policy><live-only><scale-down><scale-down-group-name>g</scale-down-group-name>"
            "<scale-down-clustername>c</scale-down-clustername></scale-down></live-only></ha-policy>"
        )
        loaded = self.load(connections(connection("")) + text)
        self.assertEqual(loaded.configuration.scale_down, ScaleDownConfiguration(group_name="g", cluster_name="c"))
        self.assertEqual(["AMQ221038" in str(warning) for warning in loaded.warnings], [True, True, True])

    def test_initial_wait_timeout_under_both_names(self) -> None:
        for name, warnings in (("initial-wait-timeout", 0), ("discovery-initial-wait-timeout", 1)):
            loaded = self.load(GROUP.replace("</discovery-group>", f"<{name}>5</{name}></discovery-group>"))
            self.assertEqual(loaded.configuration.discovery_groups["dg"].initial_wait_timeout, 5)
            self.assertEqual(len(loaded.warnings), warnings)


class RefusedTests(ConfigurationTestCase):
    def test_groups(self) -> None:
        address, port = "<group-address>{}</group-address>", "<group-port>9876</group-port>"
        ref = "<connector-ref>own</connector-ref>"
        good = address.format("231.7.7.7") + port + ref
        for inside, expected in (
            (good + "<jgroups-file>f.xml</jgroups-file>", "mixes elements of UDP and of JGroups"),
            ("<local-bind-port>5</local-bind-port><jgroups-file>f.xml</jgroups-file>" + ref, "mixes elements"),
            (address.format("224.0.0.0") + port + ref, "<group-address>: group address 224.0.0.0 is reserved: choose one from 224.0.0.1"),
            (address.format("10.0.0.1") + port + ref, "expected a multicast address"),
            (address.format("240.0.0.1") + port + ref, "expected a multicast address"),
            (address.format("group") + port + ref, "expected a multicast address"),
            (
                good + "<local-bind-port>5432</local-bind-port>",
                "<local-bind-port>: local bind port 5432: it is specified together with a local bind address only",
            ),
            (port + ref, "lacks group-address, or jgroups-file and jgroups-channel"),
            (ref, "lacks group-address and group-port"),
            ("<jgroups-file>f.xml</jgroups-file>" + ref, "lacks jgroups-channel"),
            (address.format("231.7.7.7") + "<group-port>0</group-port>" + ref, "expected a port from 1 to 65535"),
            (good + "<broadcast-period>0</broadcast-period>", "expected a whole number of at least 1"),
            (good.replace("own", "onw"), "there is no connector onw; did you mean own?"),
            (good + "<connector-ref/>", "<connector-ref> is empty"),
            (good + '<connector-ref connector-name="first">own</connector-ref>', "names first, own: expected one connector"),
        ):
            with self.subTest(inside=inside):
                found = self.errors(broadcast(inside))
                self.assertIn("broker.xml:2: ", found[0])
                self.assertIn(expected, found[0])
        self.configured(broadcast(good + "<local-bind-port>-1</local-bind-port>"))

    def test_places(self) -> None:
        """The line of the element, not only that of its block."""
        text = f"{BASE}\n<bridges>\n<bridge name='b'>\n<queue-name>q</queue-name>\n<discovery-group-ref discovery-group-name='gd'/>"
        (found,) = self.errors(f"{text}\n</bridge></bridges>")
        self.assertTrue(found.startswith("broker.xml:6: "), found)
        self.assertIn("there is no discovery-group gd; expected: dg", found)

    def test_cluster_connections(self) -> None:
        for text, expected in (
            (connection("", own=""), "cluster-connection c lacks connector-ref"),
            (connection("") + connection(""), "second cluster-connection c (first on line 2)"),
            (connection('<discovery-group-ref discovery-group-name="x"/>'), "there is no discovery-group x"),
            (connection("<static-connectors><connector-ref>fisrt</connector-ref></static-connectors>"), "did you mean first?"),
            ('<cluster-connection-uri name="u" address="tcp://h:1"/>', "expected static://"),
            ('<cluster-connection-uri name="u" address="static://"/>', "expected static://"),
            ('<cluster-connection-uri name="u" address="multicast://dg?connectorNam=own"/>', "there is no property connectorNam; did you"),
            ('<cluster-connection-uri name="u" address="multicast://dg?x"/>', "expected name=value"),
            ('<cluster-connection-uri name="u" address="multicast://dg?maxHops=-1;connectorName=own"/>', "maxHops: '-1' is not valid"),
            ('<cluster-connection-uri name="u" address="static://(udp://h:1)?connectorName=own"/>', "the scheme udp"),
        ):
            with self.subTest(text=text):
                self.assertIn(expected, self.errors(connections(text))[0])

    @given(
        st.text(alphabet="acdegimnorstuwx01(),:/?;=&%.# ", max_size=60), st.sampled_from(["", "static://(", "multicast://dg?", "static://"])
    )
    def test_any_url_is_read_or_refused(self, text: str, beginning: str) -> None:
        uri = f'<cluster-connection-uri name="u" address={quoteattr(beginning + text)}/>'
        with contextlib.suppress(ConfigurationError):
            self.load(connections(uri))

    def test_ranges(self) -> None:
        for name, bad in (
            ("check-period", "0"),
            ("connection-ttl", "-1"),
            ("min-large-message-size", "0"),
            ("call-timeout", "0"),
            ("call-failover-timeout", "0"),
            ("retry-interval", "0"),
            ("retry-interval-multiplier", "0"),
            ("max-retry-interval", "0"),
            ("initial-connect-attempts", "-2"),
            ("reconnect-attempts", "-2"),
            ("use-duplicate-detection", "maybe"),
            ("message-load-balancing", "SOMETIMES"),
            ("max-hops", "-1"),
            ("confirmation-window-size", "-1"),
            ("producer-window-size", "0"),
            ("notification-interval", "0"),
            ("notification-attempts", "0"),
            ("topology-scanner-attempts", "-2"),
        ):
            with self.subTest(name=name):
                self.assert_error(connections(connection(f"<{name}>{bad}</{name}>")), f"<{name}>: '{bad}' is not valid: expected ")

    def test_diverts_bridges_and_the_rest(self) -> None:
        for core, expected in (
            ("<diverts><divert name='d'/></diverts>", "divert d lacks <address> and <forwarding-address>"),
            ("<diverts><divert/></diverts>", "lacks the attribute name"),
            ("<diverts><divert name='d'><routing-type>ALL</routing-type></divert></diverts>", "expected one of ANYCAST"),
            ("<diverts><divert name='d'><transformer/></divert></diverts>", "lacks <class-name>"),
            (bridge("<discovery-group-ref discovery-group-name='dg'/>"), "bridge b lacks <queue-name>"),
            (bridge("<queue-name>q</queue-name>"), "bridge b has nowhere to go"),
            (bridge("<queue-name>q</queue-name><static-connectors/>"), "bridge b has nowhere to go"),
            (bridge("<queue-name>q</queue-name><concurrency>0</concurrency>"), "'0' is not valid"),
            (
                bridge("<queue-name>q</queue-name><password>ENC(x)</password><discovery-group-ref discovery-group-name='dg'/>"),
                "a masked password cannot be read",
            ),
            ("<grouping-handler name='g'/>", "lacks <type>: expected LOCAL or REMOTE"),
            ("<ha-policy><primary-only><scale-down>maybe</scale-down></primary-only></ha-policy>", "expected true or false, or elements"),
            (
                "<ha-policy><primary-only><scale-down><cluster-name>x</cluster-name></scale-down></primary-only></ha-policy>",
                "there is no cluster-connection x; expected: none",
            ),
            ("<ha-policy><primary-only/><replication/></ha-policy>", "<ha-policy> holds primary-only, replication: expected one of them"),
            ("<ha-policy><replication><primary/></replication></ha-policy>", "<replication> needs a cluster-connection"),
            ("<ha-policy><shared-store/></ha-policy>", "<shared-store> holds nothing: expected primary or backup"),
            ("<ha-policy><shared-store><primary/><slave/></shared-store></ha-policy>", "<shared-store> holds primary, slave: expected"),
            ("<ha-policy><shared-store><colocated/></shared-store></ha-policy>", "<colocated> needs a cluster-connection"),
            (
                "<ha-policy><shared-store><primary><scale-down/></primary></shared-store></ha-policy>",
                "<scale-down> is not an element of <primary>",
            ),
            (
                "<ha-policy><shared-store><backup><scale-down>maybe</scale-down></backup></shared-store></ha-policy>",
                "expected true or false",
            ),
            (
                "<persistence-enabled>false</persistence-enabled><ha-policy><shared-store><backup/></shared-store></ha-policy>",
                "<shared-store> needs persistence-enabled",
            ),
            ("<ha-policy><primary-only/><live-only/></ha-policy>", "expected one of them"),
        ):
            with self.subTest(core=core):
                self.assertIn(expected, self.errors(core)[0])


class WarningTests(ConfigurationTestCase):
    def pair(self, one: str, other: str) -> str:
        return connections(connection(f"<address>{one}</address>", "a"), connection(f"<address>{other}</address>", "b"))

    def test_an_unknown_connector_leaves_the_cluster_connection_out(self) -> None:
        loaded = self.load(connections(connection("", own="<connector-ref>onw</connector-ref>"), connection("", "other")))
        self.assertEqual([each.name for each in loaded.configuration.cluster_connections], ["other"])
        self.assertIn(
            "cluster-connection c is left out, as in Artemis: there is no connector onw; did you mean own?", str(loaded.warnings[0])
        )

    def test_overlapping_addresses(self) -> None:
        for one, other, expected in (
            ("jms", "jms.queue", "addresses that begin with jms.queue"),
            ("", "", "every address"),
            ("", "a", "addresses that begin with a"),
            ("!a", "a.b,c", "addresses that begin with c"),
        ):
            with self.subTest(one=one, other=other):
                self.assert_warning(self.pair(one, other), f"cluster-connections a and b both match {expected}:")
        for one, other in (("a", "b"), ("a,b", "c"), ("!a", "a.b"), ("a,!a.b", "a.b.c"), ("a", "b,!a")):
            with self.subTest(one=one, other=other):
                self.configured(self.pair(one, other))

    def test_wildcards(self) -> None:
        self.assert_warning(connections(connection("<address>jms.#,a</address>")), "'jms.#' has wildcards, which mean nothing here")
        self.assert_warning(connections(connection("<address>!a.*</address>")), "'!a.*' has wildcards")

    def test_parts_of_an_address_that_match_nothing(self) -> None:
        self.assert_warning(connections(connection("<address>eu.uk,eu,!eu.uk</address>")), "'eu.uk' matches nothing: '!eu.uk' excludes it")
        self.assert_warning(connections(connection("<address>eu.uk,de,!eu</address>")), "'eu.uk' matches nothing: '!eu' excludes it")
        for fine in ("eu,!eu.uk", "!eu", "eu.uk,eu.de", "eu,!us"):
            with self.subTest(fine):
                self.configured(connections(connection(f"<address>{fine}</address>")))

    def test_default_credentials(self) -> None:
        text = connections(connection(""))
        self.assert_warning(text.replace(SECRET, ""), "AMQ222007")
        self.configured(text.replace("<cluster-user>u</cluster-user>", ""))

    def test_static_connectors_win(self) -> None:
        both = "<static-connectors><connector-ref>first</connector-ref></static-connectors><discovery-group-ref discovery-group-name='dg'/>"
        self.assert_warning(connections(connection(both)), "the discovery-group dg has no effect")
        (found,) = self.load(bridge(f"<queue-name>q</queue-name>{both}")).configuration.bridges
        self.assertEqual((found.static_connectors, found.discovery_group), (("first",), None))

    def test_both_names_of_the_balancing(self) -> None:
        both = "<message-load-balancing>OFF</message-load-balancing><forward-when-no-consumers>true</forward-when-no-consumers>"
        loaded = self.load(connections(connection(both)))
        self.assertEqual(loaded.configuration.cluster_connections[0].message_load_balancing, "STRICT")
        self.assertIn("message-load-balancing has no effect", str(loaded.warnings))

    def test_a_broadcast_group_that_says_nothing(self) -> None:
        inside = "<group-address>231.7.7.7</group-address><group-port>1</group-port>"
        self.assert_warning(broadcast(inside), "broadcast-group g is left out")
        self.assertEqual(self.load(broadcast(inside)).configuration.broadcast_groups, [])

    def test_the_cluster_connection_of_an_acceptor(self) -> None:
        acceptor = '<acceptors><acceptor name="a">tcp://127.0.0.1:1?clusterConnection={}</acceptor></acceptors>'
        self.configured(connections(connection("")) + acceptor.format("c"))
        self.assert_warning(connections(connection("")) + acceptor.format("d"), "clusterConnection=d is not a cluster-connection")


class PropertyTests(ConfigurationTestCase):
    """Overriding properties reach everything."""

    def with_properties(self, text: str, core: str = BASE) -> Loaded:
        files: Mapping[str, bytes] = {"/b.xml": document(core).encode(), "/b.properties": text.encode()}
        return load_configuration("/b.xml", files.__getitem__, {}, ["/b.properties"])

    def test_new_blocks(self) -> None:
        loaded = self.with_properties(
            "clusterConfigurations.c.connectorName=own\nclusterConfigurations.c.staticConnectors=first,second\n"
            "clusterConfigurations.c.messageLoadBalancingType=STRICT\nclusterConfigurations.c.clientFailureCheckPeriod=5\n"
            "bridgeConfigurations.b.queueName=q\nbridgeConfigurations.b.staticConnectors=first\nbridgeConfigurations.b.callTimeout=6\n"
            "bridgeConfigurations.b.password=ENC(-41e444c3ed07d6dd)\nbridgeConfigurations.b.filterString=x=1\n"
            "divertConfigurations.d.address=a\ndivertConfigurations.d.forwardingAddress=b\n"
            "divertConfigurations.d.transformerConfiguration.className=m.T\n"
            "divertConfigurations.d.transformerConfiguration.properties.k=v\n"
            "broadcastGroupConfigurations.g.connectorInfos=own\nbroadcastGroupConfigurations.g.endpointFactory.groupAddress=231.7.7.7\n"
            "broadcastGroupConfigurations.g.endpointFactory.groupPort=9876\n"
            "discoveryGroupConfigurations.h.file=f.xml\ndiscoveryGroupConfigurations.h.channelName=ch\n"
            "groupingHandlerConfiguration.name=gh\ngroupingHandlerConfiguration.type=LOCAL\n"
            "HAPolicyConfiguration=PRIMARY_ONLY\nHAPolicyConfiguration.scaleDownConfiguration.groupName=g\n"
            "HAPolicyConfiguration.scaleDownConfiguration.connectors=first\n"
        )
        found = loaded.configuration
        self.assertEqual(loaded.warnings, [])
        self.assertEqual(
            found.cluster_connections,
            [
                ClusterConnectionConfiguration(
                    "c", "own", message_load_balancing="STRICT", check_period=5, static_connectors=("first", "second")
                )
            ],
        )
        self.assertEqual(
            found.bridges,
            [BridgeConfiguration("b", "q", static_connectors=("first",), call_timeout=6, password="secret", filter_string="x=1")],
        )
        self.assertEqual([each.text for each in loaded.filters], ["x=1"])
        self.assertEqual(found.diverts, [DivertConfiguration("d", "a", ("b",), transformer=TransformerConfiguration("m.T", {"k": "v"}))])
        self.assertEqual(found.broadcast_groups, [BroadcastGroupConfiguration("g", UDP, connectors=("own",))])
        self.assertEqual(found.discovery_groups["h"].endpoint, JGroupsEndpoint("ch", "f.xml"))
        self.assertEqual(found.grouping_handler, GroupingHandlerConfiguration("gh", True))
        self.assertEqual(found.scale_down, ScaleDownConfiguration(group_name="g", connectors=("first",)))

    def test_changes_and_removals(self) -> None:
        core = connections(connection("<max-hops>3</max-hops>"), connection("<address>x</address>", "gone"))
        found = self.with_properties('clusterConfigurations."c".maxHops=2\nclusterConfigurations.gone=-\n', core).configuration
        self.assertEqual(found.cluster_connections, [ClusterConnectionConfiguration("c", "own", max_hops=2)])

    def test_a_connection_that_is_a_url_can_be_changed(self) -> None:
        core = connections('<cluster-connection-uri name="u" address="multicast://dg?connectorName=own;maxHops=3"/>')
        found = self.with_properties("clusterConfigurations.u.maxHops=2\n", core).configuration
        self.assertEqual(found.cluster_connections, [ClusterConnectionConfiguration("u", "own", max_hops=2, discovery_group="dg")])

    def test_connectors_of_properties_are_known(self) -> None:
        text = "connectorConfigurations.late.params.port=9\nclusterConfigurations.c.connectorName=late\n"
        self.assertEqual(self.with_properties(text).configuration.cluster_connections[0].connector_ref, "late")

    def test_mistakes(self) -> None:
        for line, expected in (
            ("clusterConfigurations.c.maxHop=1", "there is no property maxHop; did you mean maxHops?"),
            ("clusterConfigurations.c.maxHops=x", "clusterConfigurations.c.maxHops: 'x' is not valid"),
            ("clusterConfigurations.c=1", "expected clusterConfigurations.name.property"),
            ("clusterConfigurations.c.transformerConfiguration.className=x", "there is no property"),
            ("divertConfigurations.d.transformerConfiguration.x=1", "expected transformerConfiguration.className or"),
            ("divertConfigurations.d.transformerConfiguration.properties.k=v", "<transformer> lacks <class-name>"),
            ("divertConfigurations.d.a.b=1", "there is no property a.b"),
            ("groupingHandlerConfiguration.typ=LOCAL", "did you mean type?"),
            ("HAPolicyConfiguration=COLOCATED", "<colocated> needs a cluster-connection"),
            ("HAPolicyConfiguration.x=1", "there is no property x"),
            ("HAPolicyConfiguration.scaleDownConfiguration.x=1", "there is no property x"),
            ("bridgeConfigurations.b.queueName=q", "bridge b has nowhere to go"),
        ):
            with self.subTest(line=line):
                error = self.assertRaises(ConfigurationError, self.with_properties, f"# one\n{line}\n")
                self.assertIn(expected, str(error))
                self.assertIn("/b.properties:2: ", str(error))

    def test_policies_of_high_availability(self) -> None:
        for lines, expected in (
            ("=SHARED_STORE_PRIMARY", SharedStoreConfiguration(False)),
            (
                "=SHARED_STORE_PRIMARY\n.failoverOnServerShutdown=true\n.waitForActivation=false",
                SharedStoreConfiguration(False, failover_on_shutdown=True, wait_for_activation=False),
            ),
            (
                "=SHARED_STORE_BACKUP\n.failoverOnServerShutdown=true\n.restartBackup=false\n.allowFailBack=false",
                SharedStoreConfiguration(True, failover_on_shutdown=True, restart_backup=False, allow_failback=False),
            ),
            ("=PRIMARY_ONLY", None),
        ):
            for policy in ("", "<primary-only><scale-down/></primary-only>", "<shared-store><backup/></shared-store>"):
                with self.subTest(lines=lines, policy=policy):
                    text = "\n".join(f"HAPolicyConfiguration{line}" for line in lines.split("\n"))
                    found = self.with_properties(text, f"{BASE}<ha-policy>{policy}</ha-policy>" if policy else BASE).configuration
                    self.assertEqual((found.shared_store, found.scale_down), (expected, None))

    def test_the_policy_of_the_file_can_be_changed(self) -> None:
        for role, expected in (
            ("<shared-store><slave><allow-failback>false</allow-failback></slave></shared-store>", True),
            ("<shared-store><primary/></shared-store>", False),
        ):
            found = self.with_properties(
                "HAPolicyConfiguration.failoverOnServerShutdown=true", f"{BASE}<ha-policy>{role}</ha-policy>"
            ).configuration.shared_store
            self.assertEqual(found, SharedStoreConfiguration(expected, failover_on_shutdown=True, allow_failback=not expected))
        found = parse_configuration(
            document(BASE),
            substitutions={
                "brokerconfig.HAPolicyConfiguration": "SHARED_STORE_BACKUP",
                "brokerconfig.HAPolicyConfiguration.restartBackup": "false",
            },
        ).configuration.shared_store
        self.assertEqual(found, SharedStoreConfiguration(True, restart_backup=False))

    def test_mistakes_in_policies(self) -> None:
        for first, line, expected in (
            (
                "HAPolicyConfiguration=SHARED_STORE_PRIMARY",
                "HAPolicyConfiguration.restartBackup=true",
                "there is no property restartBackup",
            ),
            ("HAPolicyConfiguration=SHARED_STORE_BACKUP", "HAPolicyConfiguration.alowFailBack=true", "did you mean allowFailback?"),
            ("HAPolicyConfiguration=SHARED_STORE_BACKUP", "HAPolicyConfiguration.restartBackup=x", "'x' is not valid"),
            ("HAPolicyConfiguration=SHARED_STORE_BACKUP", "HAPolicyConfiguration.restartBackup.x=x", "no property restartBackup.x"),
            ("", "HAPolicyConfiguration=LIVE_ONLY", "expected PRIMARY_ONLY, SHARED_STORE_PRIMARY"),
            (
                "HAPolicyConfiguration=SHARED_STORE_BACKUP",
                "HAPolicyConfiguration.scaleDownConfiguration.x=true",
                "there is no property x",
            ),
            ("", "HAPolicyConfiguration=-", "expected PRIMARY_ONLY, SHARED_STORE_PRIMARY"),
            ("", "HAPolicyConfiguration=REPLICATION_PRIMARY_LOCK_MANAGER", "<replication> needs a cluster-connection"),
            (
                "HAPolicyConfiguration=REPLICATION_PRIMARY_LOCK_MANAGER",
                "HAPolicyConfiguration.distributedManagerConfiguration.name=x",
                "expected distributedManagerConfiguration.className or distributedManagerConfiguration.properties.key",
            ),
            ("", "HAPolicyConfiguration=REPLICATION_PRIMARY_QUORUM_VOTING", "<replication> needs a cluster-connection"),
        ):
            with self.subTest(line=line):
                error = self.assertRaises(ConfigurationError, self.with_properties, f"{first or '#'}\n{line}\n")
                self.assertIn(expected, str(error))
                self.assertIn("/b.properties:2: ", str(error))

    def test_a_lock_manager_in_properties(self) -> None:
        lines = (
            "HAPolicyConfiguration=REPLICATION_BACKUP_LOCK_MANAGER\n"
            "HAPolicyConfiguration.distributedManagerConfiguration.className=a.b:C\n"
            "HAPolicyConfiguration.distributedManagerConfiguration.properties.locks-folder=/locks\n"
            "HAPolicyConfiguration.allowFailBack=true\n"
        )
        found = self.with_properties(lines, connections(connection(""))).configuration.replication
        manager = LockManagerConfiguration("a.b:C", {"locks-folder": "/locks"})
        self.assertEqual(found, ReplicationConfiguration(True, allow_failback=True, manager=manager))

    def test_removals_of_single_blocks(self) -> None:
        core = (
            BASE + "<grouping-handler name='g'><type>LOCAL</type></grouping-handler>"
            "<ha-policy><primary-only><scale-down/></primary-only></ha-policy>"
        )
        found = self.with_properties("groupingHandlerConfiguration=-\nHAPolicyConfiguration.scaleDownConfiguration=-\n", core).configuration
        self.assertEqual((found.grouping_handler, found.scale_down), (None, None))

    def test_any_policy_is_noticed(self) -> None:
        for policy, there in (("", False), ("<ha-policy/>", False), ("<ha-policy><primary-only/></ha-policy>", True)):
            self.assertEqual(self.with_properties("", BASE + policy).configuration.has_ha_policy, there, policy)

    def test_a_text_works_without_files(self) -> None:
        found = parse_configuration(document(BASE), substitutions={"brokerconfig.clusterConfigurations.c.connectorName": "own"})
        self.assertEqual(found.configuration.cluster_connections, [ClusterConnectionConfiguration("c", "own")])
