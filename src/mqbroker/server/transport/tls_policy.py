"""The TLS versions, cipher suites and server names of an acceptor (``enabledProtocols``, ``enabledCipherSuites``, ``sniHost``)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from mqclient.text import nearest_name

if TYPE_CHECKING:
    from OpenSSL.SSL import Connection, Context

TLS_1_2: Final = "TLSv1.2"
TLS_1_3: Final = "TLSv1.3"
_VERSIONS: Final = (TLS_1_2, TLS_1_3)
_NEVER: Final = ("SSLv2Hello", "SSLv3", "TLSv1", "TLSv1.1")
"""Versions that Java knows and this broker never uses, listed or not, because they are insecure."""

_MODES: Final = {"GCM": "GCM", "CCM": "CCM", "CCM_8": "CCM8", "CBC": ""}


class TlsConfigurationError(ValueError):
    """A TLS parameter of an acceptor cannot be used; the text names the parameter and the reason."""


def openssl_cipher(name: str) -> str:
    """The OpenSSL name of a cipher suite of TLS 1.2 that is given by its Java name; other names stay as they are.

    ``TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256`` is ``ECDHE-RSA-AES128-GCM-SHA256``.
    """
    match = re.fullmatch(r"(?:TLS|SSL)_(\w+?)_WITH_(\w+)", name)
    if match is None:
        return name
    exchange = "" if match[1] == "RSA" else match[1].replace("_", "-") + "-"
    aes = re.fullmatch(r"AES_(128|256)_(GCM|CCM_8|CCM|CBC)(?:_(SHA\d*))?", match[2])
    if aes is None:
        return exchange + match[2].removesuffix("_SHA256").replace("_", "-")
    parts = [f"AES{aes[1]}", _MODES[aes[2]], aes[3] or ""]
    return exchange + "-".join(part for part in parts if part)


def restrict(context: Context, parameters: Mapping[str, str]) -> None:
    """Restrict ``context`` to the versions, suites and names in the ``parameters`` of an acceptor.  Raises
    :class:`TlsConfigurationError`."""
    versions = _enabled_versions(parameters)
    suites = _list(parameters, "enabledCipherSuites")
    if suites:
        versions &= _set_ciphers(context, suites)
        if not versions:
            raise TlsConfigurationError("enabledCipherSuites has no cipher suite for one of the enabledProtocols")
    _disable_others(context, versions)
    pattern = parameters.get("sniHost", "")
    if pattern:
        _check_server_name(context, re.compile(pattern))


def _list(parameters: Mapping[str, str], name: str) -> list[str]:
    return [entry.strip() for entry in parameters.get(name, "").split(",") if entry.strip()]


def _enabled_versions(parameters: Mapping[str, str]) -> set[str]:
    listed = _list(parameters, "enabledProtocols")
    for name in listed:
        if name not in (*_VERSIONS, *_NEVER):
            hint = nearest_name(name, _VERSIONS)
            raise TlsConfigurationError(f"enabledProtocols: {name} is not known; {hint or ' and '.join(_VERSIONS)} can be used")
    if listed and not {*listed} & {*_VERSIONS}:
        raise TlsConfigurationError(f"enabledProtocols={','.join(listed)}: none of these is safe; add {' or '.join(_VERSIONS)}")
    return {*listed} & {*_VERSIONS} if listed else {*_VERSIONS}


def _set_ciphers(context: Context, suites: list[str]) -> set[str]:
    """Returns the versions that still have a cipher suite."""
    from OpenSSL.SSL import Error

    newest = [name for name in suites if re.fullmatch(r"TLS_(AES|CHACHA20)_\w+", name)]
    older = [openssl_cipher(name) for name in suites if name not in newest]
    try:
        if older:
            context.set_cipher_list(":".join(older).encode())
        if newest:
            context.set_tls13_ciphersuites(":".join(newest).encode())
    except Error as error:
        raise TlsConfigurationError(f"enabledCipherSuites={','.join(suites)}: OpenSSL knows none of these") from error
    return ({TLS_1_2} if older else set()) | ({TLS_1_3} if newest else set())


def _disable_others(context: Context, versions: set[str]) -> None:
    from OpenSSL import SSL

    if TLS_1_3 not in versions:
        context.set_options(SSL.OP_NO_TLSv1_3)
    if TLS_1_2 not in versions:
        context.set_options(SSL.OP_NO_TLSv1_2)


def _check_server_name(context: Context, pattern: re.Pattern[str]) -> None:
    from OpenSSL import SSL

    # A context without a certificate: a connection that gets this context cannot finish the handshake.
    refusing = SSL.Context(SSL.TLS_METHOD)

    def check(connection: Connection) -> None:
        name = connection.get_servername()
        if name is not None and pattern.fullmatch(name.decode("ascii", "replace")) is None:
            connection.set_context(refusing)

    context.set_tlsext_servername_callback(check)
