"""Key stores and trust stores: PEM, PKCS#12, and the JKS form that older Java tools write.  The content of a file shows its form.

In JKS a store is a list of entries, all numbers big-endian: a private key with its chain, or a certificate that is trusted.  The key is
hidden under a stream of SHA-1 digests of password and salt; a digest of password and content closes the file.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass, field

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import load_der_private_key, load_pem_private_key, pkcs12
from cryptography.x509 import Certificate, InvalidVersion, load_der_x509_certificate, load_pem_x509_certificates

_JKS = bytes.fromhex("feedfeed")
_JCEKS = bytes.fromhex("cececece")
_JKS_WORDS = b"Mighty Aphrodite"
"""Part of the input of the digest at the end."""
_PRIVATE_KEY, _TRUSTED = 1, 2
_SEQUENCE, _OCTETS = 0x30, 0x04
_DIGEST_SIZE = 20
_SUN_PROTECTION = bytes.fromhex("060a2b060104012a02110101")
"""Name of the way in which the key is hidden (an object identifier)."""


@dataclass(slots=True)
class KeyStore:
    """A private key and certificates.  ``certificates`` begin with the key's own and its chain; trusted certificates follow."""

    key: PrivateKeyTypes | None = None
    certificates: list[Certificate] = field(default_factory=list)


def read_key_store(data: bytes, password: str | None) -> KeyStore:
    """The first private key and all certificates of a store.  Without ``password`` a JKS store is not checked, and its keys stay hidden.

    Raises ValueError for data that is no such store, and for a wrong password.
    """
    if data.startswith(_JCEKS):
        raise ValueError("a JCEKS store can only be read by Java; convert it with 'keytool -importkeystore -deststoretype PKCS12'")
    secret = None if password is None else password.encode()
    try:
        if data.startswith(_JKS):
            return _Jks(data, password).read()
        return _from_pem(data, secret) if b"-----BEGIN" in data else _from_pkcs12(data, secret)
    except (TypeError, InvalidVersion, UnsupportedAlgorithm) as error:  # TypeError: a key with a password where none was given
        raise ValueError(str(error)) from error


def _from_pem(data: bytes, password: bytes | None) -> KeyStore:
    store = KeyStore()
    if b"-----BEGIN CERTIFICATE" in data:
        store.certificates = list(load_pem_x509_certificates(data))
    marker = data.find(b"PRIVATE KEY-----")
    if marker >= 0:
        start = data.rfind(b"-----BEGIN", 0, marker)
        store.key = load_pem_private_key(data[max(start, 0) :], password if b"ENCRYPTED" in data else None)
    return store


def _from_pkcs12(data: bytes, password: bytes | None) -> KeyStore:
    found = pkcs12.load_pkcs12(data, password)
    certificates = [] if found.cert is None else [found.cert.certificate]
    return KeyStore(found.key, [*certificates, *(entry.certificate for entry in found.additional_certs)])


class _Jks:
    def __init__(self, data: bytes, password: str | None) -> None:
        self._data = data
        self._at = len(_JKS)
        self._secret = None if password is None else password.encode("utf-16-be")

    def read(self) -> KeyStore:
        body, digest = self._data[:-_DIGEST_SIZE], self._data[-_DIGEST_SIZE:]
        if self._secret is not None and not hmac.compare_digest(_sha1(self._secret, _JKS_WORDS, body), digest):
            raise ValueError("the password is wrong, or the file is damaged")
        self._data = body
        version = self._number(4)
        if version not in (1, 2):
            raise ValueError(f"version {version} of the JKS form is not known")
        store = KeyStore()
        trusted: list[Certificate] = []
        for _ in range(self._number(4)):
            tag = self._number(4)
            self._bytes(self._number(2))  # its name
            self._bytes(8)  # when it was made
            if tag == _TRUSTED:
                trusted.append(self._certificate(version))
            elif tag == _PRIVATE_KEY:
                self._key(store, trusted, version)
            else:
                raise ValueError(f"it holds an entry of the unknown kind {tag}")
        store.certificates += trusted
        return store

    def _key(self, store: KeyStore, trusted: list[Certificate], version: int) -> None:
        hidden = self._bytes(self._number(4))
        chain = [self._certificate(version) for _ in range(self._number(4))]
        if store.key is None and self._secret is not None:
            store.key, store.certificates = _unhidden(hidden, self._secret), chain
        else:
            trusted += chain[:1]

    def _certificate(self, version: int) -> Certificate:
        if version == 2:
            self._bytes(self._number(2))  # always X.509
        return load_der_x509_certificate(self._bytes(self._number(4)))

    def _number(self, size: int) -> int:
        return int.from_bytes(self._bytes(size), "big")

    def _bytes(self, size: int) -> bytes:
        end = self._at + size
        if end > len(self._data):
            raise ValueError("the JKS store ends too early")
        found, self._at = self._data[self._at : end], end
        return found


def _unhidden(hidden: bytes, secret: bytes) -> PrivateKeyTypes:
    content, _ = _der(hidden, _SEQUENCE)
    algorithm, rest = _der(content, _SEQUENCE)
    if not algorithm.startswith(_SUN_PROTECTION):
        raise ValueError("the private key of the JKS store is protected in a way that is not known")
    protected, _ = _der(rest, _OCTETS)
    if len(protected) < 2 * _DIGEST_SIZE:
        raise ValueError("the private key of the JKS store is too short")
    digest, cipher, check = protected[:_DIGEST_SIZE], protected[_DIGEST_SIZE:-_DIGEST_SIZE], protected[-_DIGEST_SIZE:]
    stream = b""
    while len(stream) < len(cipher):
        digest = _sha1(secret, digest)
        stream += digest
    plain = bytes(left ^ right for left, right in zip(cipher, stream, strict=False))
    if not hmac.compare_digest(_sha1(secret, plain), check):
        raise ValueError("the private key has another password than its store")
    return load_der_private_key(plain, None)


def _der(data: bytes, tag: int) -> tuple[bytes, bytes]:
    """(content of the first element, bytes after it)."""
    if len(data) < 2 or data[0] != tag:
        raise ValueError("the private key of the JKS store is damaged")
    size, start = data[1], 2
    if size >= 0x80:
        start += size - 0x80
        size = int.from_bytes(data[2:start], "big")
    return data[start : start + size], data[start + size :]


def _sha1(*parts: bytes) -> bytes:
    return hashlib.sha1(b"".join(parts), usedforsecurity=False).digest()
