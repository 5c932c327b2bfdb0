"""The tables of a data folder: names and types of their columns, and which of them a query wants."""

from __future__ import annotations

from typing import Final

from pyspark.sql.types import StructType

from mqspark.columns import COLUMNS, Column, chosen, no_column
from mqspark.errors import SchemaError

MESSAGES: Final = (
    *COLUMNS,
    Column("queue_id", "bigint", "The number of the queue in its broker."),
    Column("scheduled", "timestamp", "When the message is due; null for now."),
    Column("xid", "string", "The XA branch that has sent it and is not decided (`includePrepared`); null for all that count."),
    Column("file", "string", "The segment or page that holds the message."),
    Column("offset", "bigint", "Where in the file the frame with the message begins, in bytes."),
    Column("sequence", "bigint", "The number of the segment or page."),
    Column("paged", "boolean", "Whether it is in a page."),
)

_OF_RECORDS: Final = (
    Column("file", "string", "The segment or page."),
    Column("journal", "string", "`messages`, `bindings` or `page`."),
    Column("sequence", "bigint", "The number of the segment or page."),
    Column("offset", "bigint", "Where in the file the frame with the record begins, in bytes."),
    Column("position", "bigint", "The place of the record in its file, from 0 on."),
    Column("record", "string", "What the record says: `message`, `acknowledge`, `branch`, `page`, `binding` …"),
    Column("queue_ids", "array<bigint>", "The numbers of the queues that it is about; null for none."),
    Column("queues", "array<string>", "Their names; null where a queue is not known any more."),
    Column("moved", "boolean", "Of a message: whether compaction has brought it here; null for other records."),
    Column("branch_id", "bigint", "The XA branch that it is about, or with which the message counts; null for none."),
    Column("detail", "string", "What else the record says, as JSON; null for messages."),
)

RECORDS: Final = (
    *_OF_RECORDS,
    *(column for column in COLUMNS if column.name not in ("queue", "delivery_count")),
)
"""The columns of the message itself are null for other records, the bodies of large messages always: they are in files of their own."""

TRANSACTIONS: Final = (
    Column("xid", "string", "Format id, global transaction id and branch qualifier, in hexadecimal, with colons between."),
    Column("branch_id", "bigint", "The number of the branch in its broker."),
    Column(
        "state", "string", "`prepared`, or `committed` or `rolled_back` for one that management has decided and nobody has forgotten yet."
    ),
    Column("time", "timestamp", "When it was prepared or decided, to the millisecond."),
    Column("messages", "array<bigint>", "The ids of the messages that it has sent, and that count once it is committed."),
    Column(
        "acknowledgements",
        "array<struct<queue_id:bigint,queue:string,message_id:bigint>>",
        "What it has acknowledged, and what nobody else gets meanwhile.",
    ),
    Column("duplicate_ids", "int", "How many duplicate ids it holds."),
    Column("node_id", "string", "The id of the broker."),
)

BINDINGS: Final = (
    Column("kind", "string", "`address`, `queue` or `setting`."),
    Column("id", "bigint", "The number of the address or queue; null for a setting."),
    Column("name", "string", "Its name; of a setting its key."),
    Column("address", "string", "The address; of a setting null."),
    Column("value", "string", "All of it but passwords, as JSON."),
    Column("node_id", "string", "The id of the broker."),
)

DAMAGE: Final = (
    Column("file", "string", "The file that cannot be read, or the folder in which something is missing."),
    Column("offset", "bigint", "Where the damaged place begins, in bytes."),
    Column("size", "bigint", "How many bytes cannot be read."),
    Column("message_ids", "array<bigint>", "The message ids that can still be made out there."),
    Column("reason", "string", "What is wrong."),
)

TABLES: Final = {"messages": MESSAGES, "records": RECORDS, "transactions": TRANSACTIONS, "bindings": BINDINGS, "damage": DAMAGE}
"""The columns of each table, in the order of its schema."""

MESSAGE_COLUMNS: Final = frozenset(column.name for column in COLUMNS) - {"queue"}
"""Columns that are made of the bytes of a message."""


def table_ddl(table: str, names: tuple[str, ...]) -> str:
    """The schema of a table, or of ``names`` of it.  Raises BadOptionError for a name that is none."""
    columns = chosen(names, TABLES[table], f"the table {table} has")
    return ", ".join(column.ddl() for column in columns or TABLES[table])


def check_table_schema(table: str, schema: StructType) -> None:
    """Raise SchemaError unless every field is a column of the table, with its type."""
    known = {column.name: column for column in TABLES[table]}
    for field in schema.fields:
        column = known.get(field.name)
        if column is None:
            raise SchemaError(no_column(field.name, list(known), f"the table {table} has"))
        found = field.dataType.simpleString()
        if found != column.type:
            raise SchemaError(f"the column {field.name} has the type {found}; expected {column.type}")
