"""The duplicate ids that the client gives to the messages and commits of a session."""

from __future__ import annotations

from base64 import urlsafe_b64encode

from mqclient.core.message import ClientMessage
from mqclient.core.runtime import Runtime
from mqclient.wire.message import KEY_DUPLICATE_ID, CoreMessage, encode_message
from mqclient.wire.properties import string_property

COMMITS_ADDRESS = "mqclient.commits"
"""The address whose duplicate ids are the commits that have happened."""

_MARK = "mqclient-"
_LAST_DIGITS = tuple(f"{number:02x}".encode("utf-16-le") for number in range(256))


class OwnIds:
    """Ids that nobody else gives.  All have the same length: a broker stores many of these together."""

    def __init__(self, runtime: Runtime) -> None:
        self._prefix = _MARK + urlsafe_b64encode(runtime.random_bytes(15)).decode("ascii")
        self._count = 0
        self._begun = -1
        self._beginning = b""
        """What the properties of the ids have in common whose numbers differ from ``_begun`` in their last byte."""

    def next(self) -> str:
        self._count += 1
        return f"{self._prefix}{self._count:08x}"

    def next_property(self) -> bytes:
        """As :meth:`next`: the id as an encoded property of its message."""
        self._count = count = self._count + 1
        if count >> 8 != self._begun:
            self._begun = count >> 8
            self._beginning = string_property(KEY_DUPLICATE_ID, f"{self._prefix}{count:08x}")[: -len(_LAST_DIGITS[0])]
        return self._beginning + _LAST_DIGITS[count & 0xFF]


def has_id_of_application(message: ClientMessage) -> bool:
    """Has the application given a duplicate id?  The id of another client's send, in a message that is passed on, is none."""
    value = message.properties.get(KEY_DUPLICATE_ID)
    if value is None or value[1] is None:
        return False
    return not (isinstance(value[1], str) and value[1].startswith(_MARK))


def commit_marker(commit_id: str) -> bytes:
    """The message that makes the broker remember a commit when its transaction takes effect."""
    return encode_message(CoreMessage(address=COMMITS_ADDRESS, durable=False), string_property(KEY_DUPLICATE_ID, commit_id))
