"""The tree of ``mqbroker imq dbmgr``: words as ``imqdbmgr`` has them."""

from __future__ import annotations

import click

from mqbroker.cli.imq.instances import version_option
from mqbroker.cli.lazy import LazyGroup, inside

_RECORD = "mqbroker.cli.imq.dbmgr_record"
_TABLES = "mqbroker.cli.imq.dbmgr_tables"


def _group(name: str, text: str, commands: dict[str, tuple[str, str]]) -> LazyGroup:
    first = next(iter(commands))
    return LazyGroup(name, text, f"Example: mqbroker imq dbmgr {name} {first} -varhome /var/imq -name b1", commands)


create = _group(
    "create",
    "Make tables.",
    {
        "tbl": (f"{_TABLES}:create_tables", "Make the tables of brokers."),
        "all": (f"{_TABLES}:create_tables", "The same, as imqdbmgr says it; the database of PostgreSQL has to be there."),
        "sharecc_tbl": (f"{_RECORD}:create_record", "Make the table of the change record of peers."),
    },
)
delete = _group(
    "delete",
    "Remove tables with what is in them.",
    {
        "tbl": (f"{_TABLES}:delete_tables", "Remove the tables of brokers, with all messages."),
        "sharecc_tbl": (f"{_RECORD}:delete_record", "Remove the table of the change record of peers."),
    },
)
recreate = _group(
    "recreate",
    "Make tables anew, empty.",
    {
        "tbl": (f"{_TABLES}:recreate_tables", "Make the tables of brokers anew."),
        "sharecc_tbl": (f"{_RECORD}:recreate_record", "Make the table of the change record of peers anew."),
    },
)


class _WithTables(LazyGroup):
    """A group whose options without a word, as in ``backup -dir FOLDER``, are about all tables."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, ["tbl", *args] if args and args[0].startswith("-") and args[0] != "--help" else args)


backup = _WithTables(
    "backup",
    "Write what is in tables to files.",
    "Example: mqbroker imq dbmgr backup -dir backup -varhome /var/imq -name b1",
    {
        "tbl": (f"{_TABLES}:backup_tables", "Write all tables into a folder; -dir says which, and the word may be left out."),
        "sharecc_tbl": (f"{_RECORD}:backup_record", "Write the change record of peers to a file."),
    },
)
restore = _WithTables(
    "restore",
    "Fill tables from files.",
    "Example: mqbroker imq dbmgr restore -dir backup -varhome /var/imq -name b1",
    {
        "tbl": (f"{_TABLES}:restore_tables", "Replace all tables with those in a folder; -dir says which, and the word may be left out."),
        "sharecc_tbl": (f"{_RECORD}:restore_record", "Fill the table of the change record of peers from a file."),
    },
)
remove = _group(
    "remove",
    "Remove a broker.",
    {"bkr": (f"{_TABLES}:remove_broker", "Remove a broker that has been shut down from an enhanced cluster.")},
)
reset = _group(
    "reset",
    "Clear locks.",
    {"lck": (f"{_RECORD}:reset_lock", "Clear the lock of the table of the change record.")},
)

dbmgr = LazyGroup(
    "dbmgr",
    "Manage the databases of brokers, in the words of imqdbmgr.",
    "Example: mqbroker imq dbmgr create sharecc_tbl -varhome /var/imq -name b1",
    {
        **inside(create, delete, recreate, backup, restore, reset),
        "query": (f"{_TABLES}:query", "Show the tables and the brokers of enhanced clusters."),
        **inside(remove),
    },
    params=[version_option()],
)
