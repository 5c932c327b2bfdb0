"""Questions to the broker's management address (``docs/``, "Management"; the Artemis manual, chapter "Management").

A request is a message with the resource and the operation in properties and the parameters as a JSON array in its text; the reply's text
is a JSON array with the one result.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Protocol

from mqbroker.cli.status import CommandError

if TYPE_CHECKING:
    from mqbroker.cli.options import ConnectionOptions
    from mqclient.jms import Connection

MANAGEMENT_ADDRESS: Final = "activemq.management"
REPLY_TIMEOUT_MS: Final = 30_000


class ManagementError(CommandError):
    """The broker refused an operation or does not know it; the text is the broker's own."""


class MissingResource(ManagementError):
    """A queue or another resource does not exist."""


class UnknownAttribute(ManagementError):
    """The broker has no value of an attribute, and says no more than that: an Artemis does not know those that it lacks."""


_MISSING: Final = re.compile(r"AMQ229067: Cannot find resource with name (\w+)\.(.+)", re.DOTALL)


class Management(Protocol):
    """What the commands ask of a broker."""

    def invoke(self, resource: str, operation: str, *parameters: object) -> Any:
        """The result of an operation, as JSON values.  Raises :class:`ManagementError` with the broker's reason.

        The reason of :class:`MissingResource` names the queue, not the resource.
        """

    def attribute(self, resource: str, name: str) -> Any:
        """The value of an attribute.  Raises as :meth:`invoke` does."""

    @property
    def reply_queue(self) -> str:
        """The queue on which the answers come: nobody wants to see it in a list."""


class JmsManagement:
    """Requests over a session of its own; the replies come to a temporary queue."""

    def __init__(self, connection: Connection) -> None:
        self._session = connection.create_session()
        self._replies = self._session.create_temporary_queue()
        self._producer = self._session.create_producer(f"queue://{MANAGEMENT_ADDRESS}")
        self._consumer = self._session.create_consumer(self._replies)
        self._number = 0

    @property
    def reply_queue(self) -> str:
        return self._replies.queue_name

    def invoke(self, resource: str, operation: str, *parameters: object) -> Any:
        return self._ask({"_AMQ_ResourceName": resource, "_AMQ_OperationName": operation}, json.dumps(parameters))

    def attribute(self, resource: str, name: str) -> Any:
        try:
            return self._ask({"_AMQ_ResourceName": resource, "_AMQ_Attribute": name}, None)
        except UnknownAttribute as error:
            # A broker does not say why it has no value of an attribute, but why it cannot carry out an operation.
            try:
                self.invoke(resource, f"get{name}")
            except MissingResource:
                raise
            except ManagementError:
                pass
            raise error

    def _ask(self, properties: dict[str, str], body: str | None) -> Any:
        self._number += 1
        correlation = f"mqbroker-cli-{self._number}"
        request = self._session.create_text_message(body)
        for name, value in properties.items():
            request.set_string_property(name, value)
        request.reply_to = self._replies
        request.correlation_id = correlation
        self._producer.send(request)
        while True:
            reply = self._consumer.receive(REPLY_TIMEOUT_MS)
            if reply is None:
                raise ManagementError(f"no answer from the management address within {REPLY_TIMEOUT_MS // 1000} s")
            if reply.correlation_id == correlation:
                break
        text = reply.body
        result = json.loads(text)[0] if isinstance(text, str) and text else None
        if not reply.get_boolean_property("_AMQ_OperationSucceeded"):
            raise _refusal("the broker gave no reason" if result is None else str(result))
        return result


def _refusal(text: str) -> ManagementError:
    missing = _MISSING.fullmatch(text)
    if missing is not None:
        return MissingResource(f"{missing[1]} {missing[2]} does not exist")
    return UnknownAttribute(text) if text.startswith("Problem while retrieving attribute") else ManagementError(text)


@contextmanager
def management(options: ConnectionOptions) -> Iterator[Management]:
    """A connection to the management address for the time of one command."""
    from mqbroker.cli.connection import connected

    with connected(options) as connection:
        yield JmsManagement(connection)


def json_object(text: Any) -> Any:
    """The value of a result that holds JSON as text (the ``list…`` operations); other values as they are."""
    return json.loads(text) if isinstance(text, str) and text else text
