"""The options of the data sources and jobs: one table that is documentation, types, defaults and checks at once.

Spark hands options over as texts and forgets the case of their names, so names are compared without case.  Credentials come from the
options, from a file or from the environment of the driver; they are read when options are parsed, so that executors need neither.
"""

from __future__ import annotations

import enum
import logging
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Final

from mqclient.core.connection.configuration import IN_VM_CONNECTOR, Configuration, configuration_from_url
from mqclient.text import nearest_name
from mqspark.errors import BadOptionError


class Use(enum.Flag):
    """The data source or job that options are given to."""

    READ = enum.auto()
    READ_STREAM = enum.auto()
    WRITE = enum.auto()
    WRITE_STREAM = enum.auto()
    JOURNAL = enum.auto()
    JOB = enum.auto()
    SOURCE = READ | READ_STREAM
    SINK = WRITE | WRITE_STREAM
    BROKER = SOURCE | SINK | JOB


_log = logging.getLogger(__name__)

USE_NAMES: Final = {
    Use.READ: "spark.read",
    Use.READ_STREAM: "spark.readStream",
    Use.WRITE: "df.write",
    Use.WRITE_STREAM: "df.writeStream",
    Use.JOURNAL: "mqbroker-journal",
    Use.JOB: "jobs",
}
"""Names of the uses in messages and in the manual."""

SPARKS_OWN: Final = {Use.WRITE_STREAM: frozenset({"checkpointlocation", "queryname"})}
"""Options that Spark deals with and hands to the sink nevertheless."""

BYTES_MAX: Final = 1 << 50
COUNT_MAX: Final = 1 << 62

_UNITS: Final = {"": 1, "b": 1, "k": 1 << 10, "kb": 1 << 10, "m": 1 << 20, "mb": 1 << 20, "g": 1 << 30, "gb": 1 << 30}
_SIZE = re.compile(r"(\d+)\s*([a-z]*)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of value: ``read`` parses it, or raises ValueError or KeyError; ``expected`` completes "expected …"."""

    read: Callable[[str], Any]
    expected: str


@dataclass(frozen=True, slots=True)
class OptionEntry:
    """One row of the table."""

    name: str
    uses: Use
    kind: Kind
    default: str
    """The default as the manual shows it; empty when there is none."""
    meaning: str
    secret: bool
    attribute: str = ""


def _text(value: str) -> str:
    if not value:
        raise ValueError
    return value


def _selector(value: str) -> str:
    """The selector with the broker's names of the JMS headers."""
    if not value.strip():
        raise ValueError
    if "JMS" not in value:
        return value
    # Imported only here: the package of JMS imports Twisted.
    from mqclient.jms.selectors import to_filter

    return to_filter(value) or value


def _flag(value: str) -> bool:
    return _TRUTHS[value.strip().lower()]


def _whole(least: int, most: int, expected: str) -> Kind:
    def read(value: str) -> int:
        number = int(value)
        if not least <= number <= most:
            raise ValueError
        return number

    return Kind(read, expected)


def _size(value: str) -> int:
    found = _SIZE.fullmatch(value.strip())
    unit = None if found is None else _UNITS.get(found[2].lower())
    if found is None or unit is None or not 1 <= int(found[1]) * unit <= BYTES_MAX:
        raise ValueError
    return int(found[1]) * unit


def _names(value: str) -> tuple[str, ...]:
    names = tuple(part.strip() for part in value.split(","))
    if not all(names) or len(set(names)) != len(names):
        raise ValueError
    return names


def _choice(*choices: str) -> Kind:
    by_folded = {choice.lower(): choice for choice in choices}
    return Kind(lambda value: by_folded[value.strip().lower()], f"{', '.join(choices[:-1])} or {choices[-1]}")


def _offsets(*words: str) -> Kind:
    def read(value: str) -> str:
        stripped = value.strip()
        if stripped.lower() in words:
            return stripped.lower()
        if not (stripped.startswith("{") and stripped.endswith("}")):
            raise ValueError
        return stripped

    return Kind(read, f'{", ".join(words)}, or JSON such as {{"version":1,"nodes":{{"<node id>":{{"<queue>":1234}}}}}}')


def _list_of(what: str) -> Kind:
    return Kind(_names, f"{what}, separated by commas, each once")


_TRUTHS: Final = {"true": True, "false": False}
_NAME: Final = Kind(_text, "a name")
_ADDRESS: Final = Kind(_text, "the name of an address")
_FOLDER: Final = Kind(_text, "a folder")
_FLAG: Final = Kind(_flag, "true or false")
_COUNT: Final = _whole(1, COUNT_MAX, "a number from 1")
_MILLISECONDS: Final = _whole(1, 86_400_000, "ms from 1 to 86400000")


def _option(
    name: str,
    uses: Use,
    kind: Kind,
    meaning: str,
    default: Any = None,
    *,
    shown: str = "",
    secret: bool = False,
) -> Any:
    """One field of :class:`Options`; ``shown``: the default as the manual has it, when its Python form would not do."""
    text = shown or ("" if default in (None, (), "") else str(default).lower() if isinstance(default, bool) else str(default))
    entry = OptionEntry(name, uses, kind, text, meaning, secret)
    return field(default=default, repr=not secret, metadata={"option": entry})


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options that were set, with the defaults.  A pickled object holds the password; ``repr`` never shows it."""

    url: str = _option(
        "url",
        Use.BROKER,
        Kind(_text, "a connection URL such as tcp://host:61616 or (tcp://a:61616,tcp://b:61616)?ha=true"),
        "Where the broker is: any connection URL of a client, with its parameters for TLS, time limits and the like. Of a cluster one "
        "member is enough: the others are found by it.",
        "",
        secret=True,
    )
    user: str | None = _option("user", Use.BROKER, _NAME, "The user name; wins over one in the URL.")
    password: str | None = _option("password", Use.BROKER, Kind(str, "a password"), "The password; wins over one in the URL.", secret=True)
    password_file: str | None = _option(
        "passwordFile", Use.BROKER, Kind(_text, "a path"), "A file on the driver whose first line is the password."
    )
    password_env: str | None = _option("passwordEnv", Use.BROKER, _NAME, "An environment variable of the driver that holds the password.")
    connect_timeout: int = _option(
        "connectTimeout",
        Use.BROKER,
        _MILLISECONDS,
        "How long, in ms, a query tries to reach a broker before it fails with an error.",
        5_000,
    )
    reconnect_timeout: int = _option(
        "reconnectTimeout",
        Use.BROKER,
        _MILLISECONDS,
        "How long, in ms, a running query waits for a broker that has gone away before the query fails.",
        60_000,
    )
    queues: tuple[str, ...] = _option(
        "queue",
        Use.BROKER,
        _list_of("names of queues"),
        "Sources: the queue to read, or several. Sink: the one queue to send to.",
        (),
    )
    topic: str | None = _option(
        "topic",
        Use.BROKER,
        _ADDRESS,
        "Sources: the address to read, through the queue of a durable subscription. Sink: the address to send to, for all its "
        "subscriptions.",
    )
    subscription: str | None = _option(
        "subscription",
        Use.SOURCE | Use.JOB,
        _NAME,
        "The durable subscription of `topic`, as a shared one of JMS: its queue is created where it does not exist.",
    )
    selector: str | None = _option(
        "selector",
        Use.SOURCE | Use.JOB,
        Kind(_selector, "a message selector, as in JMS"),
        "Which messages are read. Of a subscription that is created it becomes the filter.",
    )
    starting_offsets: str = _option(
        "startingOffsets",
        Use.SOURCE,
        _offsets("earliest", "latest"),
        "Where reading begins: before the oldest message, behind the newest, or behind these message ids. A stream that has a checkpoint "
        "continues where it stopped.",
        "earliest",
    )
    ending_offsets: str = _option(
        "endingOffsets",
        Use.READ,
        _offsets("latest"),
        "Where reading ends: at the newest message, or with these message ids.",
        "latest",
    )
    max_messages_per_trigger: int | None = _option(
        "maxMessagesPerTrigger",
        Use.READ_STREAM,
        _COUNT,
        "The most messages in a batch, over all nodes and queues.",
    )
    max_bytes_per_trigger: int | None = _option(
        "maxBytesPerTrigger",
        Use.READ_STREAM,
        Kind(_size, "a number of bytes from 1, or with k, m or g: 64m"),
        "The approximate number of bytes of messages in a batch, over all nodes and queues: the batch ends with the message "
        "that reaches it.",
    )
    min_partitions: int | None = _option(
        "minPartitions",
        Use.SOURCE,
        _COUNT,
        "The least number of tasks that read a queue, if it has as many messages. By default a task reads about 50,000 messages or 32 MB.",
    )
    fail_on_data_loss: bool = _option(
        "failOnDataLoss",
        Use.SOURCE,
        _FLAG,
        "Fail, instead of only logging it, when messages that should still be read no longer exist "
        "(because an operator removed them or the reader).",
        True,
    )
    reader_name: str | None = _option(
        "readerName",
        Use.READ_STREAM | Use.JOB,
        _NAME,
        "The name of the query's durable position on the broker. Two queries that read one queue need two names.",
        shown="of the query's checkpoint",
    )
    columns: tuple[str, ...] = _option(
        "columns",
        Use.SOURCE | Use.JOURNAL,
        _list_of("names of columns"),
        "Which columns are read; others are not decoded. A schema of one's own, with .schema(…), says the same.",
        (),
        shown="all columns",
    )
    body_format: str = _option(
        "bodyFormat",
        Use.SOURCE,
        _choice("binary", "text", "json"),
        "What the column `body` is: the bytes; the text of a text message, or of a bytes message in UTF-8; or a struct that is read from "
        "JSON in either.",
        "binary",
    )
    body_schema: str | None = _option(
        "bodySchema",
        Use.SOURCE,
        Kind(_text, "columns with types, as in SQL: orderId bigint, amount double"),
        "With bodyFormat=json: the fields of the struct. A schema of one's own, with .schema(…), says the same.",
    )
    mode: str = _option(
        "mode",
        Use.SOURCE,
        _choice("PERMISSIVE", "FAILFAST"),
        "How to treat a message that cannot be decoded, has an unknown type, or has a body that does not fit: the parts that cannot be "
        "read are null and the type is a number, with a line in the log; or the query fails.",
        "PERMISSIVE",
    )
    address: str | None = _option(
        "address",
        Use.SINK,
        Kind(_text, "the name of an address, or address::queue"),
        "The address to send to, of whatever kind; it must exist. Without `queue`, `topic` and `address` the column `address` names it.",
    )
    exactly_once: str = _option(
        "exactlyOnce",
        Use.SINK,
        _choice("duplicateIds", "transactions", "none"),
        "How a repeated task is kept from doubling messages: by duplicate ids, by one prepared transaction (XA) per task, or not at all.",
        "duplicateIds",
    )
    time_to_live: int = _option(
        "timeToLive",
        Use.SINK,
        _whole(0, COUNT_MAX, "ms from 0"),
        "After how many ms messages expire, where the column `expiration` does not say when; 0: never.",
        0,
    )
    unknown_columns: str = _option(
        "unknownColumns",
        Use.SINK,
        _choice("fail", "properties"),
        "How to treat columns that are not part of a message: raise an error that names the nearest column, or "
        "write them as properties of the message.",
        "fail",
    )
    nodes: tuple[str, ...] = _option(
        "nodes",
        Use.SINK,
        _list_of("node ids"),
        "The members of a cluster that the tasks send to. Default: all members that are there when a batch begins; a stream keeps to those "
        "of its first batch, unless `exactlyOnce` is none.",
        (),
    )
    transaction_timeout: int = _option(
        "transactionTimeout",
        Use.SINK,
        _MILLISECONDS,
        "With `exactlyOnce=transactions`: after how many ms the broker gives up a task's transaction that is not prepared.",
        3_600_000,
    )
    path: str | None = _option(
        "path",
        Use.JOURNAL,
        _FOLDER,
        "The data folder of a broker, stopped or running, or the folder of its instance; nothing is written to it. Every worker must see "
        "it.",
    )
    journal_folder: str | None = _option(
        "journalFolder", Use.JOURNAL, _FOLDER, "`journal-directory` of the broker.", shown="journal in path"
    )
    bindings_folder: str | None = _option(
        "bindingsFolder", Use.JOURNAL, _FOLDER, "`bindings-directory` of the broker.", shown="bindings in path"
    )
    large_messages_folder: str | None = _option(
        "largeMessagesFolder", Use.JOURNAL, _FOLDER, "`large-messages-directory` of the broker.", shown="large-messages in path"
    )
    paging_folder: str | None = _option("pagingFolder", Use.JOURNAL, _FOLDER, "`paging-directory` of the broker.", shown="paging in path")
    table: str = _option(
        "table",
        Use.JOURNAL,
        _choice("messages", "records", "transactions", "bindings", "damage"),
        "Which table is read: the messages that a start would recover, the records as they are in the files, the open XA branches, "
        "addresses with queues and settings, or the places that cannot be read.",
        "messages",
    )
    on_damage: str = _option(
        "onDamage",
        Use.JOURNAL,
        _choice("fail", "skip"),
        "A place that cannot be read ends the query with an error that names file and offset, or is left out, as `mqbroker data recover` "
        "does; the table `damage` lists such places.",
        "fail",
    )
    include_prepared: bool = _option(
        "includePrepared",
        Use.JOURNAL,
        _FLAG,
        "Also messages that were sent in XA branches which are prepared and not decided; their column `xid` is not null.",
        False,
    )

    @classmethod
    def parse(cls, mapping: Mapping[str, str], allowed: Use) -> Options:
        """Read the options from Spark, for one use or several.

        Raises :class:`mqspark.errors.BadOptionError` that names the option and, for an unknown one, the nearest; the text shows no secret
        value.
        """
        values: dict[str, Any] = {}
        by_folded = {entry.name.lower(): entry for entry in OPTIONS}
        passed_over = frozenset[str]().union(*(names for use, names in SPARKS_OWN.items() if use & allowed))
        for given, value in mapping.items():
            entry = by_folded.get(given.lower())
            if entry is None:
                if given.lower() not in passed_over:
                    raise BadOptionError(_unknown(given, allowed))
                continue
            if not entry.uses & allowed:
                raise BadOptionError(
                    f"the option {entry.name} belongs to {use_names(entry.uses)} and does nothing for {use_names(allowed)}"
                )
            values[entry.attribute] = _read(entry, value)
        options = cls(**_with_password(values))
        options._check(allowed)
        return options

    def _check(self, allowed: Use) -> None:
        if allowed & Use.BROKER and not self.url:
            raise BadOptionError("the option url is missing: expected a connection URL such as tcp://host:61616")
        if self.url:
            for warning in self.configuration().warnings:
                _log.warning("the option url: %s", warning)
        named = [name for name, value in (("queue", self.queues), ("topic", self.topic), ("address", self.address)) if value]
        if len(named) > 1:
            raise BadOptionError(f"the options {' and '.join(named)} exclude each other")
        if self.subscription is not None and self.topic is None:
            raise BadOptionError("the option subscription needs the option topic")
        if allowed & Use.SOURCE:
            self._check_source(allowed)
        if allowed & Use.SINK and len(self.queues) > 1:
            raise BadOptionError(
                f"the option queue names {len(self.queues)} queues, and a sink sends to one: several need the column address"
            )
        if allowed & Use.JOURNAL and self.path is None and (self.journal_folder is None or self.bindings_folder is None):
            raise BadOptionError("the option path is missing: expected the data folder of a broker")

    def _check_source(self, allowed: Use) -> None:
        if not self.queues and self.topic is None:
            raise BadOptionError("one of the options queue and topic is needed")
        if self.topic is not None and self.subscription is None:
            raise BadOptionError("the option topic needs the option subscription: the durable name under which the broker keeps messages")
        if self.body_schema is not None and self.body_format != "json":
            raise BadOptionError(f"the option bodySchema needs bodyFormat=json; it is {self.body_format}")

    def configuration(self) -> Configuration:
        """Connectors and settings of the URL, with the credentials of the options.

        Raises :class:`mqspark.errors.BadOptionError` for a URL that cannot be read.
        """
        try:
            found = configuration_from_url(self.url)
        except ValueError as error:
            raise BadOptionError(f"the option url: {error}") from None
        if any(connector.factory_class_name == IN_VM_CONNECTOR for connector in found.connectors):
            raise BadOptionError("the option url: vm:// leads to a broker in the same process, and Spark runs in several: expected tcp://")
        found.settings.user = self.user or found.settings.user
        found.settings.password = found.settings.password if self.password is None else self.password
        if self.password is None and (found.settings.password or "").startswith("ENC("):
            raise BadOptionError("the option url: its password is masked and cannot be read here: give the plain one in passwordFile")
        return found


OPTIONS: Final[tuple[OptionEntry, ...]] = tuple(replace(each.metadata["option"], attribute=each.name) for each in fields(Options))
"""The table, in the manual's order."""


def use_names(uses: Use) -> str:
    """``spark.read, df.write``."""
    return ", ".join(name for use, name in USE_NAMES.items() if use & uses)


def _read(entry: OptionEntry, value: str) -> Any:
    try:
        return entry.kind.read(value)
    except (ValueError, KeyError):
        shown = "" if entry.secret else f"={value!r}"
        raise BadOptionError(f"the option {entry.name}{shown}: expected {entry.kind.expected}") from None


def _unknown(given: str, allowed: Use) -> str:
    known = [entry.name for entry in OPTIONS if entry.uses & allowed]
    nearest = nearest_name(given, known)
    return f"the option {given} is not known" + (f"; did you mean {nearest}?" if nearest else f"; there are: {', '.join(known)}")


def _with_password(values: dict[str, Any]) -> dict[str, Any]:
    """``values`` with the password that a file or the environment holds."""
    if len({"password", "password_file", "password_env"} & set(values)) > 1:
        raise BadOptionError("give only one of the options password, passwordFile and passwordEnv")
    if "password_file" in values:
        path = Path(values["password_file"])
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
            raise BadOptionError(f"the option passwordFile={str(path)!r}: the file cannot be read: {reason}") from None
        values["password"] = text.splitlines()[0] if text else ""
    if "password_env" in values:
        name = values["password_env"]
        if name not in os.environ:
            raise BadOptionError(f"the option passwordEnv={name!r}: the driver has no such environment variable")
        values["password"] = os.environ[name]
    return values
