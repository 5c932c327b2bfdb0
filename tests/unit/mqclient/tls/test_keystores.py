"""Key stores: what files of each form hold."""

from __future__ import annotations

import base64
import hashlib
import struct

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, NoEncryption, PrivateFormat, pkcs12
from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from mqclient.tls.keystores import KeyStore, read_key_store

PASSWORD = "secret1"
WITH_KEY = base64.b64decode(
    "/u3+7QAAAAIAAAABAAAAAQADb25lAAABof+EjjUAAAB/MH0wDgYKKwYBBAEqAhEBAQUABGuWOKfrMAgWAv1VYa38iSv7X57iRLbjvJ5qM3Pyuk0xLVikgOzR"
    "suRYNb8uefVX8+A4HaIfz0HFbg/6eG546Bao/f+z8j4ScMq5gS0/8lOQSYnvPTkKN/7LbrsoBZIQX7EaYCt7iBgDlMkEwwAAAAEABVguNTA5AAABSTCCAUUw"
    "geugAwIBAgIIDyBMWZ2Fyi4wCgYIKoZIzj0EAwIwFjEUMBIGA1UEAxMLamtzLmV4YW1wbGUwIBcNMjYxMTIxMTkxMDM5WhgPMjEyNjEwMjgxOTEwMzlaMBYx"
    "FDASBgNVBAMTC2prcy5leGFtcGxlMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEqE8WdaptiTjgD6WBOlojXVmFURq7Y1iNfZ51NN2MkKPCsSPJlW8hJ8zn"
    "9E9kOQECWP+Cwds0ueoHn/qqAoxuSqMhMB8wHQYDVR0OBBYEFOyi7EBB6HhSSjUn5maDpWHCp2xsMAoGCCqGSM49BAMCA0kAMEYCIQC7TPqginPAXbF+b9E7"
    "n5ONeYSnhR2vnIzAkgc96835MwIhAJx9sw6mCu57A0zUBFQMchWo8QRyVwzkgmssV5epnhdU+s+SEj7pLFMaQscnQbkDok0unvI="
)
"""A private key and its certificate for CN=jks.example, made by Java's keytool."""
TRUSTED = base64.b64decode(
    "/u3+7QAAAAIAAAABAAAAAgACY2EAAAGh/4SUEQAFWC41MDkAAAFJMIIBRTCB66ADAgECAggPIExZnYXKLjAKBggqhkjOPQQDAjAWMRQwEgYDVQQDEwtqa3Mu"
    "ZXhhbXBsZTAgFw0yNjExMjExOTEwMzlaGA8yMTI2MTAyODE5MTAzOVowFjEUMBIGA1UEAxMLamtzLmV4YW1wbGUwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNC"
    "AASoTxZ1qm2JOOAPpYE6WiNdWYVRGrtjWI19nnU03YyQo8KxI8mVbyEnzOf0T2Q5AQJY/4LB2zS56gef+qoCjG5KoyEwHzAdBgNVHQ4EFgQU7KLsQEHoeFJK"
    "NSfmZoOlYcKnbGwwCgYIKoZIzj0EAwIDSQAwRgIhALtM+qCKc8BdsX5v0Tufk415hKeFHa+cjMCSBz3rzfkzAiEAnH2zDqYK7nsDTNQEVAxyFajxBHJXDOSC"
    "ayxXl6meF1SziAF8Wd0Ob9BaFUhl7AK6hvwWIQ=="
)
"""That certificate as one that is trusted."""


def closed(body: bytes, password: str = PASSWORD) -> bytes:
    """A JKS file with the digest that belongs to its content."""
    return body + hashlib.sha1(password.encode("utf-16-be") + b"Mighty Aphrodite" + body).digest()


class JksTests(SynchronousTestCase):
    def certificate_and_key(self) -> KeyStore:
        return read_key_store(WITH_KEY, PASSWORD)

    def test_a_private_key(self) -> None:
        store = self.certificate_and_key()
        assert isinstance(store.key, ec.EllipticCurvePrivateKey)
        (certificate,) = store.certificates
        self.assertEqual(certificate.subject.rfc4514_string(), "CN=jks.example")
        self.assertEqual(certificate.public_key(), store.key.public_key())

    def test_a_trusted_certificate(self) -> None:
        store = read_key_store(TRUSTED, PASSWORD)
        self.assertEqual((store.key, store.certificates), (None, self.certificate_and_key().certificates))

    def test_without_a_password_certificates_only(self) -> None:
        self.assertEqual(read_key_store(TRUSTED, None), read_key_store(TRUSTED, PASSWORD))
        self.assertEqual(read_key_store(WITH_KEY, None), read_key_store(TRUSTED, PASSWORD))

    def test_several_entries(self) -> None:
        entry, trusted = WITH_KEY[12:-20], TRUSTED[12:-20]
        store = read_key_store(closed(WITH_KEY[:8] + struct.pack(">i", 3) + trusted + entry + entry), PASSWORD)
        self.assertIsNotNone(store.key)
        self.assertEqual(len(store.certificates), 3)

    def test_what_cannot_be_used(self) -> None:
        for data, password, expected in (
            (WITH_KEY, "wrong", "password is wrong"),
            (WITH_KEY[:-30] + bytes(30), PASSWORD, "damaged"),
            (closed(WITH_KEY[:-20], "other"), "other", "another password than its store"),
            (closed(WITH_KEY[:7] + b"\x03" + WITH_KEY[8:-20]), PASSWORD, "version 3"),
            (closed(WITH_KEY[:15] + b"\x07" + WITH_KEY[16:-20]), PASSWORD, "unknown kind 7"),
            (closed(WITH_KEY[:100]), PASSWORD, "ends too early"),
            (closed(WITH_KEY[:-20].replace(bytes.fromhex("2a02110101"), bytes.fromhex("2a02110102"))), PASSWORD, "not known"),
            (b"\xce\xce\xce\xce" + WITH_KEY[4:], PASSWORD, "keytool"),
        ):
            with self.subTest(expected=expected):
                self.assertIn(expected, str(self.assertRaises(ValueError, read_key_store, data, password)))

    @given(st.integers(4, len(WITH_KEY) - 21), st.binary(min_size=1, max_size=8))
    def test_damage_is_a_value_error(self, at: int, damage: bytes) -> None:
        body = WITH_KEY[:at] + damage + WITH_KEY[at + len(damage) : -20]
        try:
            read_key_store(closed(body), PASSWORD)
        except ValueError:
            pass


class OtherFormTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.store = read_key_store(WITH_KEY, PASSWORD)
        assert isinstance(self.store.key, ec.EllipticCurvePrivateKey)
        self.key = self.store.key

    def test_pkcs12(self) -> None:
        data = pkcs12.serialize_key_and_certificates(b"one", self.key, self.store.certificates[0], None, BestAvailableEncryption(b"p"))
        found = read_key_store(data, "p")
        self.assertEqual((found.key is not None, found.certificates), (True, self.store.certificates))
        self.assertRaises(ValueError, read_key_store, data, "q")
        self.assertRaises(ValueError, read_key_store, data, None)

    def test_pem(self) -> None:
        certificate = self.store.certificates[0].public_bytes(Encoding.PEM)
        for encryption, password in ((NoEncryption(), None), (NoEncryption(), "unused"), (BestAvailableEncryption(b"p"), "p")):
            key = self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)
            for data in (key + certificate, certificate + key):
                found = read_key_store(data, password)
                self.assertEqual((found.key is not None, found.certificates), (True, self.store.certificates))
        self.assertRaises(ValueError, read_key_store, key + certificate, None)
        self.assertRaises(ValueError, read_key_store, key + certificate, "q")

    def test_neither(self) -> None:
        for data in (b"", b"\xfe\xed", b"text"):
            self.assertRaises(ValueError, read_key_store, data, "p")
