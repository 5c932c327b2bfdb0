"""Logins by certificate."""

from __future__ import annotations

import datetime
from unittest import TestCase

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from mqbroker.config.instance.jaas import LoginModule as ModuleConfiguration
from mqbroker.server.security.certificates import NamePattern, subject_name
from mqbroker.server.security.login import (
    Credentials,
    LoginBrokenError,
    LoginFailedError,
    log_in,
    login_steps,
)
from tests.unit.server.security.test_login import Files, someone


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

    def test_a_name_with_a_backslash_or_odd_blanks_is_not_another_name(self) -> None:
        """A certificate of ``ad\\min`` logged its client in as ``admin``."""
        for value in ("ad\\min", "\\admin", "admin\u00a0", "\tadmin", "admin\r"):
            name = subject_name(certificate((NameOID.COMMON_NAME, value)))
            assert name is not None
            self.assertFalse(NamePattern("CN=admin").matches(name), value)
        self.assertEqual(subject_name(certificate((NameOID.COMMON_NAME, "corp\\bob"))), 'CN="corp\\\\bob"')
        self.assertTrue(NamePattern('CN="corp\\\\bob"').matches('CN="corp\\\\bob"'))
        self.assertTrue(NamePattern(" CN=admin\t").matches("CN=admin"))
