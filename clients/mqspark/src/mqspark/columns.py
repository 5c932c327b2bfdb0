"""The columns of a message: names, types, meaning, and the choice of a query.

Spark hands no list of wanted columns to a source in Python, so a query chooses columns by a schema of its own,
``spark.read.schema("message_id bigint, body binary")``, or by the option ``columns``.  Columns that are not wanted are not decoded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from pyspark.sql.types import StructType

from mqclient.text import nearest_name
from mqspark.body_schema import check_body_schema
from mqspark.errors import BadOptionError, SchemaError

VARIANTS: Final = "map<string,variant>"


class Column(NamedTuple):
    name: str
    type: str
    """The type as Spark shows it."""
    meaning: str

    def ddl(self, kind: str | None = None) -> str:
        """The column in a schema; ``kind``: of another type.  A session decides itself which type "timestamp" means."""
        kind = kind or self.type
        return f"{self.name} {'timestamp_ltz' if kind == 'timestamp' else kind}"


COLUMNS: Final = (
    Column("message_id", "bigint", "The number of the message on its node: ascends strictly there, and is its position in a queue."),
    Column("address", "string", "The address it was sent to."),
    Column("queue", "string", "The queue it is read from."),
    Column("node_id", "string", "The id of the broker it is read from."),
    Column(
        "type",
        "string",
        "`default`, `object`, `text`, `bytes`, `map`, `stream`, `embedded` or `large_embedded`; of another type its number.",
    ),
    Column("timestamp", "timestamp", "When it was sent, to the millisecond; null when the sender left it out."),
    Column("expiration", "timestamp", "When it expires, to the millisecond; null for never."),
    Column("priority", "int", "0 (low) to 9; 4 is normal."),
    Column("durable", "boolean", "Whether it survives a stop of the broker."),
    Column("correlation_id", "string", "JMSCorrelationID, when it is a text (one of bytes is in `properties`)."),
    Column("reply_to", "string", "JMSReplyTo as it travels: `queue://…`, `topic://…` or an address."),
    Column("group_id", "string", "The group (JMSXGroupID)."),
    Column("delivery_count", "int", "How often it was delivered so far; reading it here does not count."),
    Column("user_id", "string", "JMSMessageID: `ID:` and a UUID; null when the sender left it out."),
    Column(
        "duplicate_id",
        "string",
        "The id that the broker holds against the ids it knows. Bytes that are not UTF-8 text are shown in hexadecimal.",
    ),
    Column(
        "properties",
        VARIANTS,
        "All properties, those of the protocol included (`_AMQ_…`, `JMS…`), each with its type: `properties['price']::double`.",
    ),
    Column("body", "binary", "The bytes of the body, decompressed, of large messages, too; see `bodyFormat`."),
    Column("text", "string", "The text of a text message; null for the others and for a null text."),
    Column("map_body", VARIANTS, "The entries of a map message, each with its type; null for the others."),
)
"""In the order of the default schema."""

CORRUPT: Final = Column(
    "_corrupt_record",
    "string",
    "With `bodyFormat=json`: the body that is not of the schema, when `mode` is permissive. Only when it is asked for.",
)

_BY_NAME: Final = {column.name: column for column in (*COLUMNS, CORRUPT)}

TYPE_NAMES: Final = {0: "default", 2: "object", 3: "text", 4: "bytes", 5: "map", 6: "stream", 7: "embedded", 8: "large_embedded"}
"""Names of the message types."""


def schema_ddl(names: tuple[str, ...], body_format: str, body_schema: str | None) -> str:
    """The schema of a query that brings none, as DDL: ``names``, or all columns.

    Raises BadOptionError for a name that is none, and for JSON bodies without a schema, or with one that is no list of columns.
    """
    if body_schema is not None:
        check_body_schema(body_schema)
    if body_format == "json" and body_schema is None and (not names or "body" in names):
        raise BadOptionError(
            "bodyFormat=json needs the schema of the body: bodySchema='orderId bigint, amount double', or .schema(…) with body struct<…>"
        )
    columns = chosen(names, (*COLUMNS, CORRUPT), "there is")
    return ", ".join(column.ddl(_type(column, body_format, body_schema)) for column in columns or COLUMNS)


def _type(column: Column, body_format: str, body_schema: str | None) -> str:
    if column.name != "body":
        return column.type
    return f"struct<{body_schema}>" if body_format == "json" else {"text": "string"}.get(body_format, "binary")


def check_schema(schema: StructType, body_format: str) -> None:
    """Raise SchemaError unless every field is a column of its type; a body in JSON may be any struct."""
    for field in schema.fields:
        column = _BY_NAME.get(field.name)
        if column is None or (column is CORRUPT and body_format != "json"):
            raise SchemaError(no_column(field.name, list(_BY_NAME), "there is"))
        found = field.dataType.simpleString()
        if column.name == "body" and body_format == "json":
            if not isinstance(field.dataType, StructType):
                raise SchemaError(f"the column body has the type {found}; with bodyFormat=json expected a struct")
            continue
        expected = _type(column, body_format, None)
        if found != expected:
            hint = "; bodyFormat=json makes it a struct" if column.name == "body" and isinstance(field.dataType, StructType) else ""
            raise SchemaError(f"the column {field.name} has the type {found}; expected {expected}{hint}")


def chosen(names: Sequence[str], columns: Sequence[Column], subject: str) -> list[Column]:
    """The columns that the option ``columns`` names.  Raises BadOptionError; ``subject`` begins its sentence: "there is", no column …"""
    known = {column.name: column for column in columns}
    wrong = next((name for name in names if name not in known), None)
    if wrong is not None:
        raise BadOptionError(f"the option columns: {no_column(wrong, list(known), subject)}")
    return [known[name] for name in names]


def no_column(name: str, known: Sequence[str], subject: str) -> str:
    """A sentence about an unknown column that names the nearest column, or all columns."""
    nearest = nearest_name(name, known)
    return f"{subject} no column {name}; " + (f"did you mean {nearest}?" if nearest else f"there are: {', '.join(known)}")
