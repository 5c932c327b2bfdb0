"""The URL of a PostgreSQL database as its Java driver has it, in the words of libpq."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import parse_qsl, unquote

DEFAULT_PORT = "5432"

_HOST = re.compile(r"(\[[^\]]*\]|[^:@\[\]]*)(?::(\d+))?")
_MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")
_SERVERS = {
    "any": "any",
    "primary": "read-write",
    "master": "read-write",
    "secondary": "standby",
    "slave": "standby",
    "preferSecondary": "prefer-standby",
    "preferSlave": "prefer-standby",
}
_AS_THEY_ARE = ("sslrootcert", "sslcert", "sslkey", "sslpassword", "options")
_OF_JAVA = frozenset(
    {
        "adaptiveFetch",
        "adaptiveFetchMaximum",
        "adaptiveFetchMinimum",
        "allowEncodingChanges",
        "assumeMinServerVersion",
        "autosave",
        "binaryTransfer",
        "cancelSignalTimeout",
        "cleanupSavepoints",
        "databaseMetadataCacheFields",
        "databaseMetadataCacheFieldsMiB",
        "defaultRowFetchSize",
        "disableColumnSanitiser",
        "escapeSyntaxCallMode",
        "groupStartupParameters",
        "gssEncMode",
        "hideUnprivilegedObjects",
        "hostRecheckSeconds",
        "loadBalanceHosts",
        "logServerErrorDetail",
        "logUnclosedConnections",
        "loggerFile",
        "loggerLevel",
        "maxResultBuffer",
        "preferQueryMode",
        "prepareThreshold",
        "preparedStatementCacheQueries",
        "preparedStatementCacheSizeMiB",
        "quoteReturningIdentifiers",
        "reWriteBatchedInserts",
        "readOnlyMode",
        "receiveBufferSize",
        "sendBufferSize",
        "socketTimeout",
        "sslResponseTimeout",
        "stringtype",
        "tcpKeepAlive",
        "tcpNoDelay",
        "unknownLength",
    }
)
"""Parameters that tune the Java driver, and change nothing here."""
PARAMETERS = (
    "user",
    "password",
    "ssl",
    "sslmode",
    *_AS_THEY_ARE,
    "targetServerType",
    "currentSchema",
    "connectTimeout",
    "loginTimeout",
    "ApplicationName",
)
"""The parameters that are honoured."""


def libpq_place(text: str) -> dict[str, str]:
    """The meaning of the text behind ``jdbc:postgresql:``: host and port, lists with commas where there are several, dbname, and more.

    ``connect_timeout`` is in s.  Raises ValueError with a reason that shows no password.
    """
    address, _, query = text.partition("?")
    if "@" in address:
        raise ValueError("a user before the host is not supported: write the parameters user and password")
    hosts, database = _split(address)
    if not database:
        raise ValueError("the database is missing")
    given = dict(parse_qsl(query, keep_blank_values=True))
    for name, value in given.items():
        if name not in PARAMETERS and name not in _OF_JAVA:
            # Without a value it may be the rest of a password with an & in it.
            named = f"the parameter {name}" if value else "one of the parameters"
            raise ValueError(f"{named} is not supported: expected one of {', '.join(PARAMETERS)}")
    places = [_place(each) for each in hosts.split(",")]
    found = {"host": ",".join(host for host, _ in places), "port": ",".join(port for _, port in places), "dbname": database}
    return found | {name: given[name] for name in ("user", "password", *_AS_THEY_ARE) if name in given} | _translated(given)


def _split(address: str) -> tuple[str, str]:
    """Hosts and database; the short form has no hosts."""
    if not address.startswith("//"):
        return "", unquote(address.strip("/"))
    hosts, _, database = address[2:].partition("/")
    return hosts, unquote(database.strip("/"))


def _place(text: str) -> tuple[str, str]:
    found = _HOST.fullmatch(text)
    if found is None or (found[2] and not 0 < int(found[2]) < 65536):
        raise ValueError(f"{text!r} is no host with a port: expected HOST:PORT, with commas between several")
    return found[1].strip("[]") or "localhost", found[2] or DEFAULT_PORT


def _translated(given: Mapping[str, str]) -> dict[str, str]:
    """The parameters that libpq calls otherwise, or writes otherwise."""
    found: dict[str, str] = {}
    if "ssl" in given and _one_of("ssl", given["ssl"] or "true", {"true": "true", "false": "false"}) == "true":
        found["sslmode"] = "verify-full"
    if "sslmode" in given:
        found["sslmode"] = _one_of("sslmode", given["sslmode"], dict(zip(_MODES, _MODES, strict=True)))
    if "targetServerType" in given:
        found["target_session_attrs"] = _one_of("targetServerType", given["targetServerType"], _SERVERS)
    if "currentSchema" in given:
        escaped = re.sub(r"([\\\s])", r"\\\1", given["currentSchema"])
        found["options"] = f"{given.get('options', '')} -c search_path={escaped}".strip()
    if "ApplicationName" in given:
        found["application_name"] = given["ApplicationName"]
    limits = [_seconds(name, given[name]) for name in ("connectTimeout", "loginTimeout") if name in given]
    if any(limits):
        found["connect_timeout"] = str(min(filter(None, limits)))
    return found


def _one_of(name: str, text: str, words: Mapping[str, str]) -> str:
    for word, meaning in words.items():
        if word.lower() == text.lower():
            return meaning
    raise ValueError(f"{name}={text}: expected one of {', '.join(words)}")


def _seconds(name: str, text: str) -> int:
    """0 is no limit."""
    if not re.fullmatch(r"\d{1,6}", text):
        raise ValueError(f"{name}={text}: expected seconds, 0 or more")
    return int(text)
