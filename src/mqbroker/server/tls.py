"""TLS for acceptors: key and trust stores in PEM or PKCS#12 form (Artemis manual, "Configuring Netty SSL")."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from mqbroker.server.tls_policy import TlsPolicyError, restrict

if TYPE_CHECKING:
    from OpenSSL.crypto import X509, PKey
    from twisted.internet.interfaces import IOpenSSLServerConnectionCreator


class TlsConfigurationError(ValueError):
    """The TLS parameters of an acceptor cannot be used; says which one and why."""


def server_context(parameters: Mapping[str, str], read_file: Callable[[str], bytes]) -> IOpenSSLServerConnectionCreator:
    """Build the TLS side of an acceptor.  Raises :class:`TlsConfigurationError`."""
    from twisted.internet.ssl import CertificateOptions

    key, certificate, chain = _key_store(parameters, read_file)
    authorities = _trust_store(parameters, read_file)
    need, want = _flag(parameters, "needClientAuth"), _flag(parameters, "wantClientAuth")
    if (need or want) and not authorities:
        raise TlsConfigurationError("needClientAuth and wantClientAuth need a trustStorePath to check client certificates against")
    options = CertificateOptions(
        privateKey=key,
        certificate=certificate,
        extraCertChain=chain,
        caCerts=authorities or None,
        verify=need or want,
        requireCertificate=need,
    )
    try:
        restrict(options.getContext(), parameters)
    except TlsPolicyError as error:
        raise TlsConfigurationError(str(error)) from error
    return options


def _flag(parameters: Mapping[str, str], name: str) -> bool:
    return parameters.get(name, "").lower() == "true"


def _password(parameters: Mapping[str, str], name: str) -> bytes | None:
    """A store's password; masked ones are plain already."""
    text = parameters.get(name)
    if text is None:
        return None
    return text.encode()


_KIND_PARAMETERS = {"keyStore": "keyStoreType", "trustStore": "trustStoreType"}


def _kind(parameters: Mapping[str, str], prefix: str) -> str:
    path = parameters.get(f"{prefix}Path", "")
    stated = parameters.get(_KIND_PARAMETERS[prefix], "").upper()
    if not stated:
        stated = (
            "PEM" if path.lower().endswith((".pem", ".crt", ".key")) else "PKCS12" if path.lower().endswith((".p12", ".pfx")) else "JKS"
        )
    if stated in ("JKS", "JCEKS"):
        raise TlsConfigurationError(
            f"{prefix}Path={path}: a {stated} store can only be read by Java; convert it with "
            "'keytool -importkeystore -deststoretype PKCS12' and set "
            f"{prefix}Type=PKCS12"
        )
    if stated == "PEMCA":
        stated = "PEM"
    if stated not in ("PEM", "PKCS12"):
        raise TlsConfigurationError(f"{prefix}Type={stated} is not known; PEM and PKCS12 are")
    return stated


def _read(parameters: Mapping[str, str], name: str, read_file: Callable[[str], bytes]) -> bytes:
    path = parameters.get(name)
    if not path:
        raise TlsConfigurationError(f"{name} is missing")
    try:
        return read_file(path)
    except OSError as error:
        raise TlsConfigurationError(f"{name}={path} cannot be read: {error.strerror}") from error


def _key_store(parameters: Mapping[str, str], read_file: Callable[[str], bytes]) -> tuple[PKey, X509, list[X509]]:
    from cryptography.hazmat.primitives.serialization import load_pem_private_key, pkcs12
    from cryptography.x509 import load_pem_x509_certificates
    from OpenSSL.crypto import X509, PKey

    key: Any
    data = _read(parameters, "keyStorePath", read_file)
    password = _password(parameters, "keyStorePassword")
    path = parameters["keyStorePath"]
    try:
        if _kind(parameters, "keyStore") == "PKCS12":
            key, certificate, more = pkcs12.load_key_and_certificates(data, password)
            certificates = [certificate, *more] if certificate is not None else []
        else:
            key = load_pem_private_key(data, password if b"ENCRYPTED" in data else None)
            certificates = list(load_pem_x509_certificates(data))
    except TlsConfigurationError:
        raise
    except (ValueError, TypeError) as error:
        raise TlsConfigurationError(f"keyStorePath={path} cannot be used (wrong password or form): {error}") from error
    if key is None or not certificates:
        raise TlsConfigurationError(f"keyStorePath={path} holds no private key with a certificate")
    first, *rest = [X509.from_cryptography(entry) for entry in certificates]
    return PKey.from_cryptography_key(key), first, rest


def _trust_store(parameters: Mapping[str, str], read_file: Callable[[str], bytes]) -> list[X509]:
    from cryptography.hazmat.primitives.serialization import pkcs12
    from cryptography.x509 import load_pem_x509_certificates
    from OpenSSL.crypto import X509

    if not parameters.get("trustStorePath"):
        return []
    data = _read(parameters, "trustStorePath", read_file)
    path = parameters["trustStorePath"]
    try:
        if _kind(parameters, "trustStore") == "PKCS12":
            store = pkcs12.load_pkcs12(data, _password(parameters, "trustStorePassword"))
            certificates = [entry.certificate for entry in store.additional_certs]
        else:
            certificates = list(load_pem_x509_certificates(data))
    except TlsConfigurationError:
        raise
    except (ValueError, TypeError) as error:
        raise TlsConfigurationError(f"trustStorePath={path} cannot be used (wrong password or form): {error}") from error
    if not certificates:
        raise TlsConfigurationError(f"trustStorePath={path} holds no certificate")
    return [X509.from_cryptography(entry) for entry in certificates]
