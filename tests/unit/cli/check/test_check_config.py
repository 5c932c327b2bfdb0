"""``mqbroker check config`` says what a start would say."""

from __future__ import annotations

import json
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from tests.unit.cli.runner import mqbroker


class ConfigTests(SynchronousTestCase):
    def test_a_misspelt_element(self) -> None:
        file = Path(self.mktemp())
        file.write_text('<configuration xmlns="urn:activemq">\n<core xmlns="urn:activemq:core">\n<nam>x</nam></core></configuration>')
        result = mqbroker("check", "config", str(file))
        self.assertEqual(result.status, 1)
        self.assertIn(f"{file}:3:", result.err)
        answer = json.loads(mqbroker("check", "config", str(file), "--json").out)
        self.assertEqual((answer["valid"], answer["errors"][0]["line"]), (False, 3))

    def check(self, core: str) -> str:
        file = Path(self.mktemp())
        file.mkdir()
        path = file / "broker.xml"
        path.write_text(f'<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core">\n{core}\n</core></configuration>')
        result = mqbroker("check", "config", str(path))
        self.assertEqual(result.status, 1)
        return result.err.replace(str(path), "broker.xml")

    def test_a_filter_that_cannot_be_read(self) -> None:
        queue = '<queue name="q">\n<filter string="a ="/></queue>'
        text = self.check(f'<addresses><address name="a"><anycast>{queue}</anycast></address></addresses>')
        self.assertIn("ERROR broker.xml:3: filter: AMQ229020: Invalid filter: a = (at character 4", text)

    def test_an_acceptor_with_a_login_domain_that_is_not_there(self) -> None:
        text = self.check('<acceptors><acceptor name="a">tcp://127.0.0.1:0?securityDomain=nope</acceptor></acceptors>')
        self.assertIn("acceptor a: securityDomain=nope is not an entry of login.config", text)

    def test_all_that_a_start_would_refuse(self) -> None:
        """Stores that cannot be opened, a metrics port that is none, two acceptors on one port, a file that includes one outside."""
        folder = Path(self.mktemp())
        folder.mkdir()
        (folder / "bad.pem").write_text("no key")
        text = self.check(
            "<acceptors>"
            f'<acceptor name="a">tcp://127.0.0.1:7001?sslEnabled=true;keyStorePath={folder.absolute()}/bad.pem</acceptor>'
            f'<acceptor name="b">tcp://127.0.0.1:7001?sslEnabled=true;keyStorePath={folder.absolute()}/none.p12</acceptor>'
            '<acceptor name="c">tcp://127.0.0.1:7002?sslEnabled=true;keyStorePath=none.p12;protocols=AMQP</acceptor>'
            '<acceptor name="d">vm://x</acceptor></acceptors>'
            "<security-enabled>false</security-enabled>"
            '<metrics><plugin class-name="a.ArtemisPrometheusMetricsPlugin"><property key="port" value="70000"/></plugin></metrics>'
        )
        self.assertIn(f"acceptor a: keyStorePath={folder.absolute()}/bad.pem cannot be used", text)
        self.assertIn(f"acceptor b: keyStorePath={folder.absolute()}/none.p12 cannot be read: No such file", text)
        self.assertIn("acceptor b: acceptor a listens on 127.0.0.1:7001 already", text)
        self.assertIn("acceptor d: vm://x has no number", text)
        self.assertIn("port=70000 is not a port", text)
        self.assertNotIn("acceptor c", text)

    def test_security_without_logins(self) -> None:
        self.assertIn("there is no entry 'activemq' in a login.config", self.check("<name>x</name>"))

    def test_the_files_of_logins(self) -> None:
        folder = Path(self.mktemp())
        self.assertEqual(mqbroker("create", str(folder), "--silent").status, 0)
        etc = folder / "etc"

        def errors() -> str:
            result = mqbroker("check", "config", "--instance", str(folder))
            self.assertEqual(result.status, 1, result.out)
            return result.err

        (etc / "artemis-users.properties").unlink()
        self.assertIn("artemis-users.properties cannot be read: No such file", errors())
        (etc / "artemis-users.properties").write_text("a = \\u12")
        self.assertIn("artemis-users.properties: ", errors())
        good = (etc / "login.config").read_text()
        (etc / "login.config").write_text(good.replace("PropertiesLoginModule", "LDAPLoginModule"))
        self.assertIn("LDAPLoginModule is not supported", errors())
        (etc / "login.config").write_text("activemq {")
        self.assertIn("login.config", errors())
        (etc / "login.config").unlink()
        self.assertIn("login.config: cannot be read, and users log in by its entry activemq", errors())

    def test_a_properties_file_on_an_instance(self) -> None:
        folder = Path(self.mktemp())
        self.assertEqual(mqbroker("create", str(folder), "--silent").status, 0)
        properties = folder / "more.properties"
        properties.write_text("globalMaxSiz=10M\n")
        result = mqbroker("check", "config", "--instance", str(folder), "--properties", str(properties))
        self.assertEqual(result.status, 1)
        self.assertIn("did you mean globalMaxSize?", result.err)
