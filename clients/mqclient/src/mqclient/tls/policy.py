"""The TLS versions and cipher suites that a connector allows, by their names in Java and in OpenSSL.

Source: the Artemis manual, chapter "Configuring the Transport" (enabledProtocols, enabledCipherSuites).
"""

from __future__ import annotations

import re
import ssl
from dataclasses import dataclass

from mqclient.text import nearest_name

VERSIONS = ("TLSv1", "TLSv1.1", "TLSv1.2", "TLSv1.3")
"""Names of the TLS versions in Java, the oldest first."""

_JAVA_SUITE = re.compile(r"(?:TLS|SSL)_(\w+?)_WITH_(\w+)")


@dataclass(frozen=True, slots=True)
class TlsPolicy:
    """The versions and suites that may be negotiated; None and empty: the library's choice."""

    oldest: str | None = None
    """One of :data:`VERSIONS`."""
    newest: str | None = None
    suites: tuple[str, ...] = ()
    """Suites of TLS 1.2 and older, as OpenSSL names them."""
    suites_13: tuple[str, ...] = ()
    """Suites of TLS 1.3, whose names are the same everywhere."""


def tls_policy(protocols: str, cipher_suites: str) -> TlsPolicy:
    """Read ``enabledProtocols`` and ``enabledCipherSuites``: lists with commas between, empty for no choice.

    Raises ValueError naming the parameter for a name that is not known and for a choice that leaves nothing.
    """
    oldest, newest = _range(_names(protocols))
    old, new = _suites(_names(cipher_suites))
    if old or new:
        # A version none of whose suites is enabled cannot be used.
        if not new:
            newest = min(newest or "TLSv1.2", "TLSv1.2")
        if not old:
            oldest = "TLSv1.3"
        if oldest is not None and newest is not None and oldest > newest:
            raise ValueError(f"enabledCipherSuites={cipher_suites}: none of them belongs to a version of enabledProtocols={protocols}")
    return TlsPolicy(oldest, newest, old, new)


def _names(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _range(names: list[str]) -> tuple[str | None, str | None]:
    if not names:
        return None, None
    for name in names:
        if name not in VERSIONS:
            nearest = nearest_name(name, VERSIONS) or ", ".join(VERSIONS)
            raise ValueError(f"enabledProtocols: {name} is not a TLS version that can be used; did you mean {nearest}?")
    numbers = sorted({VERSIONS.index(name) for name in names})
    if numbers[-1] - numbers[0] >= len(numbers):
        raise ValueError(f"enabledProtocols={','.join(names)}: a version between others cannot be left out")
    return VERSIONS[numbers[0]], VERSIONS[numbers[-1]]


def _suites(names: list[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(suites of TLS 1.2 and older, suites of TLS 1.3)."""
    old: list[str] = []
    new: list[str] = []
    if names:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.set_ciphers("ALL:COMPLEMENTOFALL:@SECLEVEL=0")
        known = {str(cipher["name"]): str(cipher["protocol"]) for cipher in context.get_ciphers()}
        for name in names:
            plain = openssl_name(name)
            if plain not in known:
                nearest = nearest_name(plain, known)
                raise ValueError(f"enabledCipherSuites: {name} is not known" + (f"; did you mean {nearest}?" if nearest else ""))
            (new if known[plain] == "TLSv1.3" else old).append(plain)
    return tuple(old), tuple(new)


def openssl_name(suite: str) -> str:
    """OpenSSL's name for a suite that Java names; a name of OpenSSL's is returned as it is."""
    found = _JAVA_SUITE.fullmatch(suite)
    if found is None:
        return suite
    exchange, cipher = found[1], found[2]
    if cipher.startswith("3DES_EDE_CBC_"):
        cipher = cipher.replace("3DES_EDE_CBC_", "DES_CBC3_")
    elif "POLY1305" in cipher:
        cipher = "CHACHA20_POLY1305"
    else:
        cipher = re.sub(r"^(AES|CAMELLIA)_(\d+)_(?:CBC_)?", r"\1\2_", cipher)
    prefix = "" if exchange == "RSA" else f"{exchange}_"
    return f"{prefix}{cipher}".replace("_", "-")
