"""Distinguished names in client certificates: their text, and how the users file matches them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

_SHORT_NAMES: Final = {
    "2.5.4.3": "CN",
    "2.5.4.5": "SERIALNUMBER",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
    "1.2.840.113549.1.9.1": "EMAILADDRESS",
}
_TO_QUOTE: Final = re.compile(r'[,+="<>#;\\\n]|\A | \Z|\s\s')
_PART: Final = re.compile(
    r""" *(?P<type>[A-Za-z0-9.]+) *= *(?:"(?P<quoted>(?:[^"\\]|\\.)*)" *|(?P<plain>(?:[^,;+"\\]|\\.)*))(?:[,;+]|\Z)""", re.S
)
"""Blanks around a value are no part of it; other white space is, or a certificate for such a name would pass for another one."""


def subject_name(certificate: object) -> str | None:
    """The subject's distinguished name as Java prints it (``CN=client, OU=unit, C=DE``); None when there is no certificate.

    ``certificate`` is one of pyOpenSSL or of ``cryptography``, None, or a callable that returns one of these.
    """
    if callable(certificate):
        certificate = certificate()
    convert = getattr(certificate, "to_cryptography", None)
    if convert is not None:
        certificate = convert()
    subject = getattr(certificate, "subject", None)
    if subject is None:
        return None
    parts = []
    for attribute in reversed(list(subject)):
        identifier = attribute.oid.dotted_string
        value = attribute.value if isinstance(attribute.value, str) else "#" + attribute.value.hex()
        if _TO_QUOTE.search(value):
            value = '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
        parts.append(f"{_SHORT_NAMES.get(identifier, 'OID.' + identifier)}={value}")
    return ", ".join(parts)


def names_host(certificate: Certificate, host: str) -> bool:
    """Is ``certificate`` for ``host``, an IP address or a host name?  Only its subject alternative names count."""
    from cryptography.x509 import DNSName, ExtensionNotFound, IPAddress, SubjectAlternativeName

    try:
        names = certificate.extensions.get_extension_for_class(SubjectAlternativeName).value
    except ExtensionNotFound:
        return False
    addresses = [str(address) for address in names.get_values_for_type(IPAddress)]
    hosts = [name.lower() for name in names.get_values_for_type(DNSName)]
    return host in addresses or host.lower() in hosts


class NamePattern:
    """The pattern of a users file for a certificate: a distinguished name, or an expression between slashes for its whole text.

    Blanks around the parts and the case of their types do not matter.  Raises ValueError for an invalid expression.
    """

    __slots__ = ("_expression", "_parts")

    def __init__(self, text: str) -> None:
        self._expression: re.Pattern[str] | None = None
        self._parts: list[tuple[str, str]] | None = None
        if len(text) > 1 and text.startswith("/") and text.endswith("/"):
            try:
                self._expression = re.compile(text[1:-1])
            except re.error as error:
                raise ValueError(f"{text} is not a regular expression: {error}") from error
        else:
            self._parts = _parts(text.strip())

    def matches(self, name: str) -> bool:
        """Does the pattern match ``name``, a text of :func:`subject_name`?"""
        if self._expression is not None:
            return self._expression.fullmatch(name) is not None
        return self._parts is not None and self._parts == _parts(name)


def _parts(name: str) -> list[tuple[str, str]] | None:
    """Types and values; None when ``name`` is no distinguished name."""
    parts: list[tuple[str, str]] = []
    position = 0
    while position < len(name):
        match = _PART.match(name, position)
        if match is None:
            return None
        value = match["quoted"] if match["quoted"] is not None else match["plain"].strip(" ")
        parts.append((match["type"].upper().removeprefix("OID."), re.sub(r"\\(.)", r"\1", value, flags=re.S)))
        position = match.end()
    return parts or None
