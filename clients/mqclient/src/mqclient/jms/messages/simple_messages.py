"""Text and object messages."""

from __future__ import annotations

import json
from typing import Final

from mqclient.jms.exceptions import MessageFormatException
from mqclient.jms.messages.message import Message
from mqclient.wire import bodies
from mqclient.wire import message as wire

JAVA_STREAM_MAGIC: Final = b"\xac\xed"
"""The first bytes of every Java serialisation stream."""


class TextMessage(Message):
    """A text, or None."""

    core_type = wire.TYPE_TEXT

    def __init__(self, text: str | None = None) -> None:
        super().__init__()
        self._content: str | None = _checked(text)

    @property
    def text(self) -> str | None:
        found: str | None = self._decoded()
        return found

    @text.setter
    def text(self, text: str | None) -> None:
        self._writable()
        self._content = _checked(text)

    @property
    def body(self) -> str | None:
        return self.text

    _decode = staticmethod(bodies.decode_text)

    def _encode(self) -> bytes:
        return bodies.encode_text(self._content)


def _checked(text: str | None) -> str | None:
    if not isinstance(text, str | None):
        raise MessageFormatException(f"the text of a message is a str or None, not {type(text).__name__}")
    return text


class JavaSerialized(bytes):
    """A Java serialisation stream, passed on unchanged and never decoded."""


class ObjectMessage(Message):
    """A Python object as JSON, or an object that Java has serialised.

    JSON is this client's own use of the type: a Java receiver cannot read it.  Send JSON in a :class:`TextMessage` to Java.
    """

    core_type = wire.TYPE_OBJECT

    def __init__(self, value: object = None) -> None:
        """``value``: an argument for ``json.dumps``, a :class:`JavaSerialized`, or None."""
        super().__init__()
        if value is not None:
            self.value = value

    @property
    def serialized(self) -> bytes | None:
        """The object as it travels; None for the null object."""
        found: bytes | None = self._decoded()
        return found

    @property
    def value(self) -> object:
        """The object: of JSON, :class:`JavaSerialized`, or None.  Raises MessageFormatException when it is neither."""
        data = self.serialized
        if data is None:
            return None
        if data.startswith(JAVA_STREAM_MAGIC):
            return JavaSerialized(data)
        try:
            value: object = json.loads(data)
        except ValueError as error:
            raise MessageFormatException("the object is neither JSON nor a Java serialisation stream; see .serialized") from error
        return value

    @value.setter
    def value(self, value: object) -> None:
        self._writable()
        if value is None or isinstance(value, JavaSerialized):
            self._content = value
            return
        try:
            self._content = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
        except (TypeError, ValueError) as error:
            raise MessageFormatException(f"a value of type {type(value).__name__} cannot be written as JSON: {error}") from error

    @property
    def body(self) -> object:
        return self.value

    _decode = staticmethod(bodies.decode_object)

    def _encode(self) -> bytes:
        return bodies.encode_object(self._content)
