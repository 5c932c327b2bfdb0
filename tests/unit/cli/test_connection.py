"""The connection that commands make of their options."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.cli.connection import acceptor_url, broker_url, connected
from mqbroker.cli.options import ConnectionOptions
from tests.unit.cli.runner import mqbroker


class ConnectionTests(SynchronousTestCase):
    def url_of(self, text: str, name: str = "artemis") -> str | None:
        file = Path(self.mktemp())
        file.write_text(text)
        return acceptor_url(file, name)

    def test_the_acceptor_of_the_instance(self) -> None:
        xml = '<c xmlns="urn:activemq:core"><acceptor name="artemis">tcp://0.0.0.0:7777?protocols=CORE</acceptor></c>'
        self.assertEqual(self.url_of(xml), "tcp://localhost:7777")
        self.assertIsNone(self.url_of(xml, "other"))
        self.assertEqual(
            self.url_of(xml.replace("0.0.0.0", "10.1.2.3").replace("protocols", "sslEnabled=true;p")), "tcp://10.1.2.3:7777?sslEnabled=true"
        )

    def test_what_cannot_be_read_counts_as_none(self) -> None:
        self.assertIsNone(self.url_of("no xml"))
        self.assertIsNone(acceptor_url(Path("no such file"), "artemis"))

    def test_without_instance_the_default(self) -> None:
        options = ConnectionOptions(None, "artemis", None, None, None, True, False, None)
        self.assertEqual(broker_url(options), "tcp://localhost:61616")

    def test_a_broker_that_is_not_there(self) -> None:
        result = mqbroker("queue", "stat", "--url", "tcp://127.0.0.1:1")
        self.assertEqual(result.status, 3)
        self.assertTrue(result.err.startswith("Connection failed::"), result.err)

    def test_a_user_without_a_password_is_asked_for_it_alone(self) -> None:
        from mqclient.jms import JMSSecurityException

        connection, asked = mock.Mock(), []
        factory = mock.Mock()
        factory.create_connection.side_effect = [JMSSecurityException("AMQ229031: Unable to validate user"), connection]
        options = ConnectionOptions("tcp://127.0.0.1:1", "artemis", "alice", None, None, False, False, None, quiet=True)

        def prompt(text: str, **_: object) -> str:
            asked.append(text)
            return "pw"

        terminal = mock.Mock()
        terminal.isatty.return_value = True
        with (
            mock.patch("mqclient.jms.ConnectionFactory", return_value=factory),
            mock.patch("sys.stdin", terminal),
            mock.patch("click.prompt", prompt),
            connected(options) as opened,
        ):
            self.assertIs(opened, connection)
        self.assertEqual(asked, ["--password"])
        self.assertEqual(factory.create_connection.call_args_list[-1].args, ("alice", "pw"))

    def test_a_bad_url(self) -> None:
        self.assertEqual(mqbroker("queue", "stat", "--url", "nonsense").status, 3)
