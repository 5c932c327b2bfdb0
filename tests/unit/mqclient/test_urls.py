"""Broker addresses: acceptors, connectors and connection URLs."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from mqclient.urls import TransportUri, UrlError, format_parameters, parse_connection_url, parse_parameters, parse_transport_uri

HOSTS = st.from_regex(r"[a-z][a-z0-9-]{0,10}", fullmatch=True)


class TransportUriTests(SynchronousTestCase):
    def test_parts(self) -> None:
        uri = parse_transport_uri("tcp://0.0.0.0:5445?protocols=CORE,AMQP;useEpoll=true&x=1", "artemis")
        expected = TransportUri("tcp", "0.0.0.0", 5445, {"protocols": "CORE,AMQP", "useEpoll": "true", "x": "1"}, "artemis")
        self.assertEqual(uri, expected)

    def test_default_ports(self) -> None:
        self.assertEqual(parse_transport_uri("tcp://broker").port, 61616)
        self.assertEqual(parse_transport_uri("udp://231.7.7.7").port, 9876)

    def test_values_are_form_decoded(self) -> None:
        """A blank may be a plus; a plus, and the separators, are written with percent signs."""
        self.assertEqual(parse_parameters("p=a+b%2Bc%26%3Bd%3De=f%C3%BC"), {"p": "a b+c&;d=e=fü"})

    def test_ipv6(self) -> None:
        self.assertEqual(parse_transport_uri("tcp://[::1]:61617"), TransportUri("tcp", "::1", 61617, {}))
        self.assertEqual(str(parse_transport_uri("tcp://[fe80::1]")), "tcp://[fe80::1]:61616")

    def test_an_acceptor_may_list_hosts(self) -> None:
        self.assertEqual(parse_transport_uri("tcp://10.0.0.1, 10.0.0.2:61616").hosts, ("10.0.0.1", "10.0.0.2"))

    def test_in_vm(self) -> None:
        self.assertEqual(parse_transport_uri("vm://0"), TransportUri("vm", "0", 0, {}))

    def test_passwords_are_not_shown(self) -> None:
        """Neither in the text of an endpoint nor in a message about one."""
        uri = parse_transport_uri("tcp://h:1?keyStorePassword=hidden")
        self.assertNotIn("hidden", f"{uri} {uri!r}")
        for text in ("tcp://h:x?password=hidden", "tcp://h:1?password=%FFhidden", "h:1?password=hidden", "tcp://h:1?password=a&hidden"):
            with self.subTest(text=text):
                self.assertNotIn("hidden", str(self.assertRaises(UrlError, parse_transport_uri, text)))

    def test_bad_addresses_say_what_was_expected(self) -> None:
        for text, expected in {
            "": "expected scheme://host:port",
            "localhost:61616": "expected scheme://host:port",
            "tcp://": "the host is missing",
            "tcp://:61616": "the host is missing",
            "tcp://h:65536": "not a number from 0 to 65535",
            "tcp://h:-1": "not a number from 0 to 65535",
            "tcp://h:61616x": "not a number from 0 to 65535",
            "tcp://::1:61616": "brackets",
            "tcp://[::1:61616": "[IPv6 address]:port",
            "http://h:1": "expected one of tcp",
            "tcp://h:1?a": "name=value",
            "tcp://h:1?=a": "name=value",
            "tcp://" + "h" * 70000: "too long",
        }.items():
            with self.subTest(text=text[:40]):
                self.assertIn(expected, str(self.assertRaises(UrlError, parse_transport_uri, text)))

    @given(st.dictionaries(st.text(min_size=1).filter(lambda name: name == name.strip()), st.text(), max_size=5))
    def test_parameters_survive_formatting(self, parameters: dict[str, str]) -> None:
        self.assertEqual(parse_parameters(format_parameters(parameters)), parameters)


class ConnectionUrlTests(SynchronousTestCase):
    def test_one_broker(self) -> None:
        url = parse_connection_url("tcp://a:1?ha=true;x=2")
        self.assertEqual((url.scheme, url.parameters), ("tcp", {"ha": "true", "x": "2"}))
        self.assertEqual([str(endpoint) for endpoint in url.endpoints], ["tcp://a:1"])

    def test_a_list_of_brokers(self) -> None:
        """Parameters after the parentheses are for all; an endpoint's own ones win."""
        url = parse_connection_url("(tcp://a:1?x=1,tcp://b:2)?x=3&y=a%2Cb")
        self.assertEqual(url.parameters, {"x": "3", "y": "a,b"})
        self.assertEqual([endpoint.parameters for endpoint in url.endpoints], [{"x": "1", "y": "a,b"}, {"x": "3", "y": "a,b"}])

    def test_a_comma_separates_only_before_a_scheme(self) -> None:
        url = parse_connection_url("(tcp://a:1?enabledCipherSuites=A,B,tcp://b:2)")
        self.assertEqual([endpoint.parameters for endpoint in url.endpoints], [{"enabledCipherSuites": "A,B"}, {}])

    def test_more_brokers_in_the_fragment(self) -> None:
        url = parse_connection_url("tcp://a:1?x=1#tcp://b:2?x=2,tcp://c")
        found = [(each.host, each.port, each.parameters["x"]) for each in url.endpoints]
        self.assertEqual(found, [("a", 1, "1"), ("b", 2, "2"), ("c", 61616, "1")])
        self.assertEqual(url.fragment, "tcp://b:2?x=2,tcp://c")

    def test_discovery(self) -> None:
        self.assertEqual(str(parse_connection_url("udp://231.7.7.7:9876?refreshTimeout=5").endpoints[0]), "udp://231.7.7.7:9876")
        self.assertEqual(parse_connection_url("jgroups://channel?file=stack.xml").endpoints[0].host, "channel")

    def test_bad_lists(self) -> None:
        for text, expected in {
            "(tcp://a:1": "has no end",
            "(tcp://a:1)x=1": "has no end",
            "(tcp://a:1,vm://0)": "the same scheme",
            "()": "address is empty",
            "(" + ",".join(["tcp://a"] * 1001) + ")": "at most 1000",
        }.items():
            with self.subTest(text=text[:40]):
                self.assertIn(expected, str(self.assertRaises(UrlError, parse_connection_url, text)))

    @given(st.lists(st.tuples(HOSTS, st.integers(0, 65535)), min_size=1, max_size=5))
    def test_every_broker_comes_out(self, brokers: list[tuple[str, int]]) -> None:
        url = parse_connection_url("(" + ",".join(f"tcp://{host}:{port}" for host, port in brokers) + ")?a=b")
        self.assertEqual([(each.host, each.port) for each in url.endpoints], brokers)

    @given(st.text(alphabet="tcpvm:/?&;=#(),[]%0123 ", max_size=40))
    def test_any_text_is_read_or_refused(self, text: str) -> None:
        try:
            parse_connection_url(text)
        except UrlError:
            pass
