"""The tree of ``mqbroker imq dbmgr``: words as ``imqdbmgr`` has them."""

from __future__ import annotations

from mqbroker.cli.lazy import LazyGroup

_RECORD = "mqbroker.cli.imq.dbmgr_record"
_GROUP = "mqbroker.cli.imq.dbmgr_group"


def _group(name: str, text: str, commands: dict[str, tuple[str, str]]) -> LazyGroup:
    first = next(iter(commands))
    return LazyGroup(name, text, f"Example: mqbroker imq dbmgr {name} {first} -varhome /var/imq -name b1", commands)


create = _group(
    "create",
    "Make tables.",
    {"sharecc_tbl": (f"{_RECORD}:create_record", "Make the table of the change record of peers.")},
)
delete = _group(
    "delete",
    "Remove tables with what is in them.",
    {"sharecc_tbl": (f"{_RECORD}:delete_record", "Remove the table of the change record of peers.")},
)
recreate = _group(
    "recreate",
    "Make tables anew, empty.",
    {"sharecc_tbl": (f"{_RECORD}:recreate_record", "Make the table of the change record of peers anew.")},
)
backup = _group(
    "backup",
    "Write what is in tables to files.",
    {"sharecc_tbl": (f"{_RECORD}:backup_record", "Write the change record of peers to a file.")},
)
restore = _group(
    "restore",
    "Fill empty tables from files.",
    {"sharecc_tbl": (f"{_RECORD}:restore_record", "Fill the table of the change record of peers from a file.")},
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
        "create": (f"{_GROUP}:create", "Make tables."),
        "delete": (f"{_GROUP}:delete", "Remove tables with what is in them."),
        "recreate": (f"{_GROUP}:recreate", "Make tables anew, empty."),
        "backup": (f"{_GROUP}:backup", "Write what is in tables to files."),
        "restore": (f"{_GROUP}:restore", "Fill empty tables from files."),
        "reset": (f"{_GROUP}:reset", "Clear locks."),
    },
)
