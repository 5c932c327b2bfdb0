"""Key stores and trust stores of a connector as PEM, for the TLS of Twisted and of asyncio.

Source: the Artemis manual, chapter "Configuring the Transport" (keyStorePath, trustStorePath, verifyHost, trustAll, sniHost).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509 import Certificate, load_der_x509_crl, load_pem_x509_crl

from mqclient.tls.keystores import read_key_store
from mqclient.tls.policy import TlsPolicy, tls_policy
from mqclient.wire.primitives import TransportConfiguration, TransportValue

_CRL_START = b"-----BEGIN X509 CRL"


@dataclass(slots=True)
class TlsSettings:
    """The TLS settings of a connector.  Certificates and key are PEM."""

    host: str
    """Name sent to the broker (SNI)."""
    verify_host: bool
    trust_all: bool
    trusted: list[bytes]
    """Certificates of the authorities; empty: the system's own."""
    certificates: list[bytes]
    """The client's own, its chain after it; empty: none."""
    private_key: bytes | None
    policy: TlsPolicy = field(default_factory=TlsPolicy)
    """Versions and cipher suites."""
    revoked: list[bytes] = field(default_factory=list)
    """Lists of certificates that are not valid any more (PEM).  Not empty: every certificate of a chain needs one of its issuer."""


def handshake_hint(error: BaseException) -> str:
    """The end of the message of a failed TLS handshake: a question where the peer may not speak TLS at all, else empty."""
    text = str(error).lower()
    if any(word in text for word in ("alert", "certificate", "verif", "no match")):
        return ""  # it does
    return "; is it a TLS acceptor, with sslEnabled=true?"


def flag(parameters: Mapping[str, TransportValue], name: str, default: bool) -> bool:
    """A boolean connector parameter.  Raises ValueError when it is neither true nor false."""
    value = parameters.get(name, default)
    text = str(value).strip().lower()
    if text not in ("true", "false"):
        raise ValueError(f"{name}={value!r}: expected true or false")
    return text == "true"


def tls_settings(connector: TransportConfiguration, read: Callable[[str], bytes]) -> TlsSettings | None:
    """None when the connector does not ask for TLS.  ``read`` reads a file.

    Raises ValueError naming the parameter when a store cannot be used, OSError when it cannot be read.
    """
    parameters = dict(connector.parameters)
    if not flag(parameters, "sslEnabled", False):
        return None
    trusted: list[bytes] = []
    if trust_path := parameters.get("trustStorePath"):
        _, trusted = _store(parameters, "trustStore", read(str(trust_path)))
        if not trusted:
            raise ValueError(f"trustStorePath={trust_path}: there is no certificate in it")
    key: bytes | None = None
    certificates: list[bytes] = []
    if key_path := parameters.get("keyStorePath"):
        key, certificates = _store(parameters, "keyStore", read(str(key_path)))
        if key is None or not certificates:
            raise ValueError(f"keyStorePath={key_path}: expected a private key and its certificate")
    return TlsSettings(
        host=str(parameters.get("sniHost") or parameters.get("host", "localhost")),
        verify_host=flag(parameters, "verifyHost", True),
        trust_all=flag(parameters, "trustAll", False),
        trusted=trusted,
        certificates=certificates,
        private_key=key,
        policy=tls_policy(str(parameters.get("enabledProtocols", "")), str(parameters.get("enabledCipherSuites", ""))),
        revoked=_revocations(str(parameters["crlPath"]), read) if parameters.get("crlPath") else [],
    )


def _revocations(path: str, read: Callable[[str], bytes]) -> list[bytes]:
    """The lists in a PEM or DER file."""
    data = read(path)
    try:
        if _CRL_START not in data:
            return [load_der_x509_crl(data).public_bytes(Encoding.PEM)]
        parts = data.split(_CRL_START)[1:]
        return [load_pem_x509_crl(_CRL_START + part).public_bytes(Encoding.PEM) for part in parts]
    except ValueError as error:
        raise ValueError(f"crlPath={path}: not a certificate revocation list in PEM or DER form: {error}") from None


def _store(parameters: Mapping[str, TransportValue], which: str, data: bytes) -> tuple[bytes | None, list[bytes]]:
    """(private key, certificates) of a store; its content shows its form."""
    path = parameters[f"{which}Path"]
    given = parameters.get(f"{which}Password")
    try:
        store = read_key_store(data, None if given is None else str(given))
    except ValueError as error:
        raise ValueError(f"{which}Path={path}: not a PEM, PKCS12 or JKS store, or {which}Password is wrong: {error}") from None
    key = None if store.key is None else store.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return key, [_pem(certificate) for certificate in store.certificates]


def _pem(certificate: Certificate) -> bytes:
    return certificate.public_bytes(Encoding.PEM)
