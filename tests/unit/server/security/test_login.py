"""Login modules, their chains, certificates."""

from __future__ import annotations

import datetime
from unittest import TestCase

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from mqbroker.config.instance.jaas import LoginModule as ModuleConfiguration
from mqbroker.config.instance.jaas import parse_login_config
from mqbroker.config.masking import hash_password
from mqbroker.config.problems import ConfigurationError
from mqbroker.server.security.certificates import NamePattern, subject_name
from mqbroker.server.security.login import (
    Credentials,
    GuestLoginModule,
    Identity,
    LoginBrokenError,
    LoginFailedError,
    LoginStep,
    log_in,
    login_steps,
)


class Fixed:
    """A module with a known answer, which counts how often it was asked."""

    def __init__(self, answer: Identity | str | None) -> None:
        self.answer = answer
        self.asked = 0

    def login(self, credentials: Credentials) -> Identity | None:
        self.asked += 1
        if isinstance(self.answer, str):
            raise LoginFailedError(self.answer)
        return self.answer


def someone(name: str, *roles: str) -> Identity:
    return Identity(name, frozenset(roles))


class ChainTests(TestCase):
    def run_chain(self, *steps: tuple[str, Identity | str | None]) -> tuple[Identity | str, list[int]]:
        modules = [Fixed(answer) for _, answer in steps]
        try:
            result: Identity | str = log_in(
                [LoginStep(flag, module) for (flag, _), module in zip(steps, modules, strict=True)], Credentials("u", "p")
            )
        except LoginFailedError as error:
            result = str(error)
        return result, [module.asked for module in modules]

    def test_flags(self) -> None:
        """(steps, result, which modules were asked): the rules of JAAS."""
        a, b = someone("a", "x"), someone("b", "y")
        both = someone("a", "x", "y")
        for steps, result, asked in (
            ((("required", a), ("required", b)), both, [1, 1]),
            ((("required", "no"), ("required", b)), "no", [1, 1]),
            ((("required", a), ("required", "no")), "no", [1, 1]),
            ((("requisite", "no"), ("required", b)), "no", [1, 0]),
            ((("requisite", a), ("required", b)), both, [1, 1]),
            ((("sufficient", a), ("required", b)), a, [1, 0]),
            ((("sufficient", "no"), ("required", b)), b, [1, 1]),
            ((("sufficient", "no"), ("sufficient", b)), b, [1, 1]),
            ((("sufficient", "no"), ("sufficient", "neither")), "no", [1, 1]),
            ((("required", "no"), ("sufficient", b), ("optional", a)), "no", [1, 1, 1]),
            ((("required", a), ("sufficient", b), ("required", "no")), both, [1, 1, 0]),
            ((("optional", "no"), ("optional", b)), b, [1, 1]),
            ((("optional", "no"),), "no", [1]),
            ((("required", a), ("optional", "no")), a, [1, 1]),
            ((("sufficient", None), ("optional", b)), b, [1, 1]),
            ((("required", None),), "no login module takes this kind of login", [1]),
            ((), "no login module takes this kind of login", []),
        ):
            with self.subTest(steps):
                self.assertEqual(self.run_chain(*steps), (result, asked))

    def test_first_name_wins(self) -> None:
        self.assertEqual(self.run_chain(("required", Identity(None, frozenset("r"))), ("required", someone("b")))[0], someone("b", "r"))


class Files:
    """An etc folder in memory."""

    def __init__(self, **contents: bytes | str) -> None:
        self.contents: dict[str, bytes | str] = {f"/etc/{name}.properties": text for name, text in contents.items()}
        self.reads = 0

    def read(self, path: str) -> bytes | str:
        self.reads += 1
        if path not in self.contents:
            raise FileNotFoundError(2, "No such file or directory", path)
        return self.contents[path]


PROPERTIES = "org.apache.activemq.artemis.spi.core.security.jaas.PropertiesLoginModule"
OPTIONS = {
    "org.apache.activemq.jaas.properties.user": "users.properties",
    "org.apache.activemq.jaas.properties.role": "roles.properties",
}


class PropertiesModuleTests(TestCase):
    def setUp(self) -> None:
        self.files = Files(
            users=f"# comment\nadmin = {hash_password('secret', bytes(32))}\nbob: plain=pass\ncolon\\:name=x\nkaputt = ENC(zz)\nempty=\n",
            roles="amq = admin,bob\naudit=bob\nblanks = admin, bob\nghosts = nobody\n",
        )

    def log_in(self, user: str | None, password: str | None, **options: str) -> Identity:
        steps, warnings = login_steps([ModuleConfiguration(PROPERTIES, "required", OPTIONS | options)], "/etc", self.files.read)
        self.assertEqual(warnings, [])
        self.steps = steps
        return log_in(steps, Credentials(user, password))

    def refused(self, user: str | None, password: str | None) -> str:
        with self.assertRaises(LoginFailedError) as caught:
            self.log_in(user, password)
        return str(caught.exception)

    def test_hashed_and_plain(self) -> None:
        self.assertEqual(self.log_in("admin", "secret"), someone("admin", "amq", "blanks"))
        self.assertEqual(self.log_in("bob", "plain=pass"), someone("bob", "amq", "audit"))
        self.assertEqual(self.log_in("colon:name", "x"), someone("colon:name"))

    def test_refused(self) -> None:
        self.assertIn("password", self.refused("admin", "Secret"))
        self.assertIn("password", self.refused("admin", None))
        self.assertIn("password", self.refused("bob", "plain=pas\ud800"))
        self.assertIn("no such user", self.refused("eve", "secret"))
        self.assertIn("no user name", self.refused(None, None))

    def test_what_an_operator_must_repair(self) -> None:
        self.assertIn("damaged", self.refused("kaputt", "x"))
        self.files.contents["/etc/roles.properties"] = "a = \\uXYZ"
        self.assertIn("/etc/roles.properties: line 1", self.refused("admin", "secret"))
        del self.files.contents["/etc/users.properties"]
        with self.assertRaises(LoginBrokenError) as caught:
            self.log_in("admin", "secret")
        self.assertEqual(str(caught.exception), "/etc/users.properties cannot be read: No such file or directory")

    def test_reload(self) -> None:
        for reload, expected in (("true", "new"), ("TRUE", "new"), ("false", "old"), ("", "old")):
            self.files.contents["/etc/users.properties"] = "bob = old"
            self.log_in("bob", "old", reload=reload)
            self.files.contents["/etc/users.properties"] = "bob = new"
            self.assertEqual(log_in(self.steps, Credentials("bob", expected)).user, "bob")

    def test_reload_fails_closed(self) -> None:
        self.log_in("bob", "plain=pass", reload="true")
        del self.files.contents["/etc/roles.properties"]
        with self.assertRaises(LoginBrokenError):
            log_in(self.steps, Credentials("bob", "plain=pass"))

    def test_base_directory(self) -> None:
        self.files.contents["/elsewhere/users.properties"] = "bob = other"
        self.files.contents["/elsewhere/roles.properties"] = ""
        self.assertEqual(self.log_in("bob", "other", baseDir="/elsewhere"), someone("bob"))

    def test_bytes_in_either_encoding(self) -> None:
        for encoding in ("utf-8", "iso-8859-1"):
            self.files.contents["/etc/users.properties"] = "jörg = pä".encode(encoding)
            self.assertEqual(self.log_in("jörg", "pä").user, "jörg")


class ConfigurationTests(TestCase):
    def steps(self, text: str) -> tuple[list[LoginStep], list[str]]:
        return login_steps(parse_login_config(text)["activemq"], "/etc", Files().read)

    def problem(self, text: str) -> str:
        with self.assertRaises(ConfigurationError) as caught:
            self.steps(text)
        return str(caught.exception)

    def test_guest(self) -> None:
        steps, _ = self.steps(
            "activemq { a.b.GuestLoginModule sufficient"
            ' org.apache.activemq.jaas.guest.user="g" org.apache.activemq.jaas.guest.role="r1,r2"; };'
        )
        self.assertEqual(log_in(steps, Credentials("who", "pw")), someone("g", "r1", "r2"))
        self.assertEqual(log_in([LoginStep("optional", GuestLoginModule())], Credentials(None, None)), someone("guest", "guests"))

    def test_guest_without_credentials_only(self) -> None:
        steps, _ = self.steps("activemq { GuestLoginModule required credentialsInvalidate=true; };")
        self.assertEqual(log_in(steps, Credentials("x", None)).user, "guest")
        with self.assertRaises(LoginFailedError):
            log_in(steps, Credentials("x", "y"))

    def test_modules_that_there_are_not(self) -> None:
        text = self.problem("activemq {\n  org.apache.activemq.artemis.spi.core.security.jaas.LDAPLoginModule required;\n};")
        self.assertIn("login.config:2: ", text)
        self.assertIn("LDAPLoginModule is not supported: expected PropertiesLoginModule, GuestLoginModule", text)

    def test_missing_file_option(self) -> None:
        text = self.problem('activemq { PropertiesLoginModule required org.apache.activemq.jaas.properties.user="u"; };')
        self.assertIn("expected the option org.apache.activemq.jaas.properties.role", text)

    def test_unknown_option_is_told(self) -> None:
        _, warnings = self.steps("activemq { GuestLoginModule required debug=true credentialInvalidate=true; };")
        self.assertEqual(len(warnings), 1)
        self.assertIn("credentialInvalidate has no effect; known: credentialsInvalidate", warnings[0])


def certificate(*attributes: tuple[x509.ObjectIdentifier, str]) -> x509.Certificate:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(oid, value) for oid, value in attributes])
    now = datetime.datetime(2026, 1, 1)
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    return builder.serial_number(1).not_valid_before(now).not_valid_after(now + datetime.timedelta(1)).sign(key, hashes.SHA256())


CLIENT = certificate(
    (NameOID.COUNTRY_NAME, "DE"), (NameOID.ORGANIZATION_NAME, 'Foo, "Inc"'), (NameOID.EMAIL_ADDRESS, "a@b"), (NameOID.COMMON_NAME, "client")
)
CLIENT_NAME = 'CN=client, EMAILADDRESS=a@b, O="Foo, \\"Inc\\"", C=DE'


class CertificateTests(TestCase):
    def test_subject_name(self) -> None:
        self.assertEqual(subject_name(CLIENT), CLIENT_NAME)
        self.assertEqual(subject_name(lambda: CLIENT), CLIENT_NAME)
        self.assertIsNone(subject_name(None))
        self.assertIsNone(subject_name(lambda: None))

    def test_subject_name_of_open_ssl(self) -> None:
        from OpenSSL.crypto import X509

        self.assertEqual(subject_name(X509.from_cryptography(CLIENT)), CLIENT_NAME)

    def test_patterns(self) -> None:
        for pattern, expected in (
            (CLIENT_NAME, True),
            ('cn=client,emailAddress=a@b,O="Foo, \\"Inc\\"",C=DE', True),
            ('CN = client , EMAILADDRESS=a@b, O=Foo\\, \\"Inc\\", C=DE', True),
            ("CN=client", False),
            ('CN=Client, EMAILADDRESS=a@b, O=Foo\\, \\"Inc\\", C=DE', False),
            ('C=DE, O=Foo\\, \\"Inc\\", EMAILADDRESS=a@b, CN=client', False),
            ("/CN=client, .*/", True),
            ("/CN=client/", False),
            ("/CN=.*, C=FR/", False),
            ("no name", False),
            ("", False),
        ):
            self.assertIs(NamePattern(pattern).matches(CLIENT_NAME), expected, pattern)
        self.assertFalse(NamePattern("no name").matches("no name"))
        with self.assertRaises(ValueError):
            NamePattern("/(/")

    def test_login_by_certificate(self) -> None:
        files = Files(users="other = CN=other\nclient = /CN=client, .*/\n", roles="amq = client\n")
        options = {
            "org.apache.activemq.jaas.textfiledn.user": "users.properties",
            "org.apache.activemq.jaas.textfiledn.role": "roles.properties",
        }
        steps, _ = login_steps([ModuleConfiguration("TextFileCertificateLoginModule", "required", options)], "/etc", files.read)
        self.assertEqual(log_in(steps, Credentials(None, None, CLIENT_NAME)), someone("client", "amq"))
        self.assertEqual(log_in(steps, Credentials("x", "y", "CN=other")), someone("other"))
        for name in ("CN=stranger", None):
            with self.assertRaises(LoginFailedError):
                log_in(steps, Credentials("client", "x", name))
        files.contents["/etc/users.properties"] = "client = /(/"
        steps, _ = login_steps([ModuleConfiguration("TextFileCertificateLoginModule", "required", options)], "/etc", files.read)
        with self.assertRaises(LoginBrokenError):
            log_in(steps, Credentials(None, None, "CN=a"))
