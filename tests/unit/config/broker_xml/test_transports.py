"""Acceptors and connectors."""

from __future__ import annotations

from tests.unit.config.test_parse import ConfigurationTestCase


class AcceptorTests(ConfigurationTestCase):
    def acceptor(self, url: str) -> str:
        return f'<acceptors><acceptor name="a">{url}</acceptor></acceptors>'

    def test_several(self) -> None:
        core = '<acceptors><acceptor name="a">tcp://h:1?anycastPrefix=jms.queue.;x</acceptor></acceptors>'
        self.assert_error(core, "acceptor a: expected name=value")
        found = self.configured(
            '<acceptors><acceptor name="a">tcp://h:1?anycastPrefix=jms.queue.</acceptor><acceptor name="b">vm://0</acceptor></acceptors>'
            '<connectors><connector name="c">tcp://h:2?sslEnabled=true&amp;trustStorePath=t.p12</connector></connectors>'
        )
        self.assertEqual([(uri.name, str(uri)) for uri in found.acceptors], [("a", "tcp://h:1"), ("b", "vm://0")])
        self.assertEqual(found.connectors["c"].parameters, {"sslEnabled": "true", "trustStorePath": "t.p12"})

    def test_without_core_it_is_not_opened(self) -> None:
        for protocols in ("AMQP", "stomp,MQTT"):
            self.assertEqual(self.load(self.acceptor(f"tcp://h:1?protocols={protocols}")).configuration.acceptors, [])
            self.assert_warning(self.acceptor(f"tcp://h:1?protocols={protocols}"), "acceptor a is not opened")

    def test_what_is_not_opened_may_ask_for_what_is_not_there(self) -> None:
        self.assert_warning(self.acceptor("tcp://h:1?protocols=MQTT;sslEnabled=true;crlPath=x;closeIdle=1"), "is not opened")

    def test_with_core_it_is_opened(self) -> None:
        for query, warnings in (
            ("", 0),
            ("?protocols=core", 0),
            ("?protocols=CORE,AMQP", 1),
            ("?protocols=", 0),
            ("?protocols=NONSENSE", 1),
        ):
            with self.subTest(query=query):
                loaded = self.load(self.acceptor(f"tcp://h:1{query}"))
                self.assertEqual((len(loaded.configuration.acceptors), len(loaded.warnings)), (1, warnings))
        self.assert_warning(self.acceptor("tcp://h:1?protocols=CORE,STOMPP"), "STOMPP", "did you mean STOMP?")

    def test_unknown_parameters_are_told(self) -> None:
        """As in Artemis they are no error."""
        self.assert_warning(self.acceptor("tcp://h:1?conectionsAllowed=4"), "conectionsAllowed", "did you mean connectionsAllowed?")
        self.assert_warning(self.acceptor("tcp://h:1?sslenabled=true"), "did you mean sslEnabled?")

    def test_parameters_of_other_protocols_pass(self) -> None:
        query = "amqpCredits=1000;stompEnableMessageId=true;supportAdvisory=false;connectionTtlMax=1;useEpoll=true;webSocketCompression=1"
        self.configured(self.acceptor(f"tcp://h:1?{query}"))

    def test_known_names_may_stand_without_a_value(self) -> None:
        """Files that Artemis has made hold such names."""
        found = self.configured(self.acceptor("tcp://h:1?tcpSendBufferSize=9;useEpoll;useKQueue;supportAdvisory;amqpCredits=1000"))
        self.assertEqual(dict(found.acceptors[0].parameters), {"tcpSendBufferSize": "9", "amqpCredits": "1000"})
        self.assert_warning(self.acceptor("tcp://h:1?tcpNoDelay=true&amp; sslEnabled ;useNio=true"), "acceptor a: sslEnabled has no value")
        self.assert_warning('<connectors><connector name="c">tcp://h:1?sslEnabled</connector></connectors>', "sslEnabled has no value")
        self.assert_error(self.acceptor("tcp://h:1?sslenabled"), "expected name=value")

    def test_blanks_around_values_mean_nothing(self) -> None:
        """In a URL of several lines a separator may begin the next line."""
        for what in ("acceptor", "connector"):
            text = f'<{what}s><{what} name="a">tcp://h:1?sslEnabled=true\n  ;keyStorePath= k.p12 ;verifyHost=true </{what}></{what}s>'
            found = self.configured(text)
            (uri,) = (*found.acceptors, *found.connectors.values())
            self.assertEqual(uri.parameters, {"sslEnabled": "true", "keyStorePath": "k.p12", "verifyHost": "true"})

    def test_bad_values(self) -> None:
        self.assert_error(self.acceptor("tcp://h:1?connectionsAllowed=x"), "acceptor a: connectionsAllowed", "whole number")
        self.assert_error(self.acceptor("tcp://h:1?sslEnabled=yes"), "expected true or false")
        self.assert_error(self.acceptor("tcp://h:99999"), "acceptor a:", "0 to 65535")
        self.assert_error(self.acceptor("udp://h:1"), "expected tcp or vm")
        self.assert_error(self.acceptor(""), "not empty")
        self.assert_error(self.acceptor("(tcp://h:1,tcp://g:1)"), "expected one URL, found 2")

    def test_what_would_weaken_or_lead_elsewhere_is_refused(self) -> None:
        for query in ("proxyProtocolEnabled=true", "crlPath=x", "router=r", "httpUpgradeEnabled=true"):
            self.assert_error(self.acceptor(f"tcp://h:1?{query}"), "cannot be used")

    def test_names(self) -> None:
        """As in Artemis an acceptor without a name, or with the name of another, is left out."""
        core = "<acceptors><acceptor>tcp://h:1</acceptor></acceptors>"
        self.assert_warning(core, "an acceptor without a name is left out")
        twice = '<connectors><connector name="c">tcp://h:1</connector><connector name="c">tcp://h:2</connector></connectors>'
        self.assert_warning(twice, "connector c is left out")
        self.assertEqual(self.load(twice).configuration.connectors["c"].port, 1)
