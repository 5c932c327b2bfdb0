"""No message shows a password of a URL, wherever in the URL it stands."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from urllib.parse import quote_plus
from xml.sax.saxutils import escape

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.parse import ConfigurationError, parse_configuration
from mqclient.core.connection.configuration import configuration_from_url
from mqclient.jms import ConnectionFactory
from mqclient.urls import UrlError, masked, parse_connection_url, parse_parameters, parse_transport_uri
from mqspark.errors import BadOptionError
from mqspark.options import Options, Use
from tests.unit.cli.runner import mqbroker

PASSWORDS = st.text(alphabet="abcXYZ019:@/?&;=#(),%+[]. ~ü", min_size=4, max_size=20).map(lambda text: f"Zq7{text}Kx8")
"""Long and distinctive enough not to be found in a message by chance; with every character that means something in a URL."""
PLACES = (
    "tcp://{}@h",
    "tcp://user:{}@h:61616",
    "tcp://user:{}@h:61616?ha=true",
    "TCP://user:{}@h:port",
    "user:{}@h:61616",
    "ssl://user:{}@h:61616",
    "amqp://user:{}@h",
    "vm://user:{}@0",
    "jgroups://user:{}@channel",
    "udp://user:{}@231.7.7.7:9876",
    "tcp://user:{}@[::1:61616",
    "tcp://user:{}@::1:61616",
    "tcp://h:61616?password={}",
    "tcp://h:port?user=a&password={}",
    "h:61616?password={}&callTimeout=5",
    "tcp://h:61616?keyStorePassword={};trustStorePath=x&callTimeout=soon",
    "tcp://h:61616?trustStorePassword={}&ha=perhaps",
    "tcp://h:61616?pass%77ord={}&ha=perhaps",
    "http://h:61616?password={}",
    "(tcp://a:1,tcp://user:{}@b:2)?ha=true",
    "(tcp://a:1?password={},tcp://b:x)?ha=true",
    "(tcp://a:1,tcp://b:x)?password={}",
    "(tcp://a:1,vm://0)?password={}",
    "(tcp://a:1,tcp://user:{}@b:2",
    "tcp://a:1#tcp://user:{}@b:x",
    "tcp://a:1#tcp://b:x?password={}",
    "udp://231.7.7.7:x?password={}",
    "jgroups://channel?password={}&file=x&refreshTimeout=soon",
)


def said_by(read: Callable[[str], object], text: str) -> str:
    """Everything that ``read`` says of ``text``: its error with all causes, its warnings, the result's own text."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            said = [repr(read(text))]
        except ValueError as error:
            said = [f"{error!r} {error.__cause__!r}"]
        except (BadOptionError, ConfigurationError) as error:
            said = [str(error)]
    return "\n".join(said + [str(each.message) for each in caught])


def broker_file(text: str) -> object:
    written = escape(text, {'"': "&quot;"})
    core = (
        f'<acceptors><acceptor name="a">{written}</acceptor></acceptors><connectors><connector name="c">{written}</connector></connectors>'
        f'<cluster-connections><cluster-connection-uri name="u" address="{written}"/><cluster-connection name="x">'
        f"<connector-ref>{written}</connector-ref></cluster-connection></cluster-connections>"
    )
    loaded = parse_configuration(f'<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core">{core}</core></configuration>')
    return loaded.warnings


READERS: tuple[Callable[[str], object], ...] = (
    masked,
    parse_connection_url,
    parse_transport_uri,
    configuration_from_url,
    ConnectionFactory,
    lambda text: Options.parse({"url": text, "queue": "q"}, Use.READ),
    broker_file,
)


class PasswordTests(SynchronousTestCase):
    @settings(max_examples=500)
    @given(PASSWORDS, st.sampled_from(PLACES), st.booleans(), st.sampled_from(READERS))
    def test_no_text_about_a_url_holds_its_password(self, password: str, place: str, quoted: bool, read: Callable[[str], object]) -> None:
        written = quote_plus(password) if quoted else password
        said = said_by(read, place.format(written))
        for form in {password, written, password.strip()}:
            self.assertNotIn(form, said)

    @given(PASSWORDS.filter(lambda text: not set("&;?#=@,:/") & set(text)), st.sampled_from(PLACES), st.sampled_from(READERS))
    def test_nor_a_part_of_it(self, password: str, place: str, read: Callable[[str], object]) -> None:
        said = said_by(read, place.format(password))
        self.assertNotIn("Zq7", said)
        self.assertNotIn("Kx8", said)

    def test_a_command_prints_the_url_without_its_passwords(self) -> None:
        for place in (
            "tcp://u:{}@127.0.0.1:1",
            "tcp://127.0.0.1:1?password={}",
            "tcp://127.0.0.1:1?trustStorePassword={}&ha=perhaps",
            "ssl://u:{}@h",
        ):
            result = mqbroker("queue", "stat", "--verbose", "--url", place.format("Zq7abcKx8"), "--user", "a", "--password", "b")
            self.assertNotIn("Zq7abcKx8", result.out + result.err, place)
            self.assertEqual(result.status, 3, result.err)


class MaskedTests(SynchronousTestCase):
    def test_the_rest_of_a_url_stays(self) -> None:
        for text, expected in {
            "tcp://h:1?user=a&password=b&trustStorePassword=c;x=d": "tcp://h:1?user=a&password=****&trustStorePassword=****;x=d",
            "tcp://h:1": "tcp://h:1",
            "tcp://h:1?user=me@home&ha=true": "tcp://h:1?user=me@home&ha=true",
            "tcp://a:b@h:1?ha=true": "tcp://****@h:1?ha=true",
            "(tcp://a:1?password=b,tcp://c:d@e)?ha=true": "(tcp://a:1?password=****,tcp://****@e)?ha=true",
            "(tcp://a:1,tcp://b:2?password=x)?ha=true": "(tcp://a:1,tcp://b:2?password=****)?ha=true",
            "tcp://h?password=a&b&ha=true": "tcp://h?password=****&ha=true",
        }.items():
            with self.subTest(text=text):
                self.assertEqual(masked(text), expected)


class HintTests(SynchronousTestCase):
    def refused(self, text: str) -> str:
        return str(self.assertRaises(UrlError, parse_connection_url, text))

    def test_credentials_before_the_host_are_sent_to_their_place(self) -> None:
        for text in ("tcp://admin:secret@127.0.0.1:61616", "tcp://admin@h", "(tcp://a:1,tcp://u:p@b:2)", "tcp://a:1?#tcp://u:p@b"):
            with self.subTest(text=text):
                self.assertIn("?user=…&password=…", self.refused(text))
                self.assertIn("create_context(user, password)", self.refused(text))

    def test_a_password_with_a_question_mark_too(self) -> None:
        self.assertIn("?user=…&password=…", self.refused("tcp://admin:se?cret@127.0.0.1:61616"))

    def test_schemes_of_tls_are_explained(self) -> None:
        for scheme in ("ssl", "SSL", "tls", "nio+ssl"):
            self.assertIn("write tcp://host:port?sslEnabled=true", self.refused(f"{scheme}://h:61617"))

    def test_an_at_sign_in_a_parameter_is_allowed(self) -> None:
        self.assertEqual(parse_connection_url("tcp://h:1?user=me@home&password=a@b").parameters, {"user": "me@home", "password": "a@b"})
        self.assertEqual(parse_parameters("password=a@b"), {"password": "a@b"})
