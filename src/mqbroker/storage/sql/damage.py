"""Rows whose bytes cannot be decoded: they are set aside, never deleted, and everything else goes on.

A row that is set aside gets the negative number of its session, which nobody reads: changed back, it is there again.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from mqbroker.messaging.message.message import Message
from mqbroker.storage.sql.schema import table
from mqclient.errors import MalformedPacketError
from mqclient.wire.message import body_end
from mqclient.wire.properties import check_block

DAMAGE = (MalformedPacketError, struct.error, IndexError, ValueError)
"""The errors of reading damaged bytes."""

Statements = list[tuple[str, tuple[object, ...]]]

_COLUMNS = {"address": "id", "queue": "id", "branch": "branch"}
_OF_BRANCH = "(SELECT {column} FROM {{message}} WHERE session = ? AND branch = ? AND branch <> 0)"
_ASIDE = {name: table(f"UPDATE {{{name}}} SET session = -session WHERE session = ? AND {key} = ?") for name, key in _COLUMNS.items()}
_REFERENCES_ASIDE = table("UPDATE {reference} SET session = -session WHERE session = ? AND place = ?")
_MESSAGE_ASIDE = table("UPDATE {message} SET session = -session WHERE session = ? AND place = ?")
_BODY_ASIDE = table(
    "INSERT INTO {body} (session, body, piece, data) SELECT -session, body, piece, data FROM {body} WHERE session = ? AND body = ? "
    "ON CONFLICT DO NOTHING"
)
_BODIES_OF_BRANCH_ASIDE = table(
    "INSERT INTO {body} (session, body, piece, data) SELECT -session, body, piece, data FROM {body} "
    f"WHERE session = ? AND body IN {_OF_BRANCH.format(column='body')} ON CONFLICT DO NOTHING"
)
_REFERENCES_OF_BRANCH_ASIDE = table(
    f"UPDATE {{reference}} SET session = -session WHERE session = ? AND place IN {_OF_BRANCH.format(column='place')}"
)
_MESSAGES_OF_BRANCH_ASIDE = table("UPDATE {message} SET session = -session WHERE session = ? AND branch = ? AND branch <> 0")


class Damage(NamedTuple):
    """A damaged row: the role of its table, and its key there besides the session."""

    session: int
    role: str
    key: int
    reason: str
    body: int | None = None

    @property
    def statements(self) -> Statements:
        """The statements that set the row aside, with every row that is of no use without it."""
        whose = self.session, self.key
        if self.role == "branch":
            return [
                (_BODIES_OF_BRANCH_ASIDE, (self.session, *whose)),
                (_REFERENCES_OF_BRANCH_ASIDE, (self.session, *whose)),
                (_MESSAGES_OF_BRANCH_ASIDE, whose),
                (_ASIDE["branch"], whose),
            ]
        if self.role != "message":
            return [(_ASIDE[self.role], whose)]
        found: Statements = [(_MESSAGE_ASIDE, whose), (_REFERENCES_ASIDE, whose)]
        if self.body is not None:
            found.append((_BODY_ASIDE, (self.session, self.body)))
        return found


def check_message(message: Message) -> None:
    """Raises one of :data:`DAMAGE` unless the message can be read to its end."""
    headers = 0 if message.large is not None else body_end(message.buffer)
    if headers != message.headers:
        raise MalformedPacketError("message", "headers", f"at {message.headers}, not at {headers}")
    check_block(message.buffer, message.properties_offset, len(message.buffer))
