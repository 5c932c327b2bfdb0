"""TLS for acceptors: key and trust stores in PEM, PKCS#12 or JKS form (Artemis manual, "Configuring Netty SSL")."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from mqbroker.server.transport.tls_policy import TlsConfigurationError, restrict

if TYPE_CHECKING:
    from OpenSSL.crypto import X509, PKey
    from twisted.internet.interfaces import IOpenSSLServerConnectionCreator

    from mqclient.tls.keystores import KeyStore


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
    restrict(options.getContext(), parameters)
    return options


def _flag(parameters: Mapping[str, str], name: str) -> bool:
    return parameters.get(name, "").lower() == "true"


def _read(parameters: Mapping[str, str], name: str, read_file: Callable[[str], bytes]) -> bytes:
    path = parameters.get(name)
    if not path:
        raise TlsConfigurationError(f"{name} is missing")
    try:
        return read_file(path)
    except OSError as error:
        raise TlsConfigurationError(f"{name}={path} cannot be read: {error.strerror}") from error


def _key_store(parameters: Mapping[str, str], read_file: Callable[[str], bytes]) -> tuple[PKey, X509, list[X509]]:
    from OpenSSL.crypto import X509, PKey

    store = _store(parameters, "keyStorePath", "keyStorePassword", read_file)
    if store.key is None or not store.certificates:
        raise TlsConfigurationError(f"keyStorePath={parameters['keyStorePath']} holds no private key with a certificate")
    first, *rest = [X509.from_cryptography(entry) for entry in store.certificates]
    key: Any = store.key
    return PKey.from_cryptography_key(key), first, rest


def _trust_store(parameters: Mapping[str, str], read_file: Callable[[str], bytes]) -> list[X509]:
    from OpenSSL.crypto import X509

    if not parameters.get("trustStorePath"):
        return []
    store = _store(parameters, "trustStorePath", "trustStorePassword", read_file)
    if not store.certificates:
        raise TlsConfigurationError(f"trustStorePath={parameters['trustStorePath']} holds no certificate")
    return [X509.from_cryptography(entry) for entry in store.certificates]


def _store(parameters: Mapping[str, str], path: str, password: str, read_file: Callable[[str], bytes]) -> KeyStore:
    """The contents of a key or trust store; the contents tell the form, as in Java.  Passwords are given unmasked."""
    from mqclient.tls.keystores import read_key_store  # few brokers use TLS

    data = _read(parameters, path, read_file)
    try:
        return read_key_store(data, parameters.get(password))
    except ValueError as error:
        text = f"{path}={parameters[path]} cannot be used (wrong password, or not PEM, PKCS12 or JKS): {error}"
        raise TlsConfigurationError(text) from error
