"""Questions of the commands to the broker's management address (see :mod:`mqclient.management`)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from mqbroker.cli.status import CommandError
from mqclient import management as questions

if TYPE_CHECKING:
    from mqbroker.cli.options import ConnectionOptions
    from mqclient.jms import Connection


class ManagementError(CommandError):
    """The broker refused an operation or does not know it; the text is the broker's own."""


class MissingResource(ManagementError):
    """A queue or another resource does not exist."""


class UnknownAttribute(ManagementError):
    """The broker has no value of an attribute: an Artemis does not have all of ours."""


_MISSING: Final = re.compile(r"AMQ229067: Cannot find resource with name (\w+)\.(.+)", re.DOTALL)


class Management:
    """Requests to the management address over a session of its own; the replies come to a temporary queue."""

    def __init__(self, connection: Connection) -> None:
        self._session = connection.create_session()
        self._replies = self._session.create_temporary_queue()
        self._producer = self._session.create_producer(f"queue://{questions.MANAGEMENT_ADDRESS}")
        self._consumer = self._session.create_consumer(self._replies)
        self._number = 0

    @property
    def reply_queue(self) -> str:
        """The temporary queue for the replies, which lists of queues leave out."""
        return self._replies.queue_name

    def invoke(self, resource: str, operation: str, *parameters: object) -> Any:
        """The result of an operation, as JSON values.  Raises :class:`ManagementError` with the broker's reason.

        The reason of :class:`MissingResource` names the queue, not the resource.
        """
        return self._ask(questions.operation(resource, operation, parameters))

    def attribute(self, resource: str, name: str) -> Any:
        """The value of an attribute.  Raises as :meth:`invoke` does."""
        try:
            return self._ask(questions.attribute(resource, name))
        except UnknownAttribute as error:
            # A broker does not say why it has no value of an attribute, but why it cannot carry out an operation.
            try:
                self.invoke(resource, f"get{name}")
            except MissingResource:
                raise
            except ManagementError:
                pass
            raise error

    def queue_id(self, queue: str) -> int:
        """The id of a queue.  Raises as :meth:`invoke` does."""
        return int(self.attribute(f"queue.{queue}", "ID"))

    def _ask(self, question: questions.Request) -> Any:
        self._number += 1
        correlation = f"mqbroker-cli-{self._number}"
        request = self._session.create_text_message(question.text)
        for name, value in question.properties.items():
            request.set_string_property(name, value)
        request.reply_to = self._replies
        request.correlation_id = correlation
        self._producer.send(request)
        while True:
            reply = self._consumer.receive(questions.REPLY_TIMEOUT_MS)
            if reply is None:
                raise ManagementError(f"no answer from the management address within {questions.REPLY_TIMEOUT_MS // 1000} s")
            if reply.correlation_id == correlation:
                break
        try:
            return questions.result(reply.body if isinstance(reply.body, str) else None, reply.get_boolean_property(questions.SUCCEEDED))
        except questions.ManagementError as error:
            raise _refusal(str(error)) from None


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
        yield Management(connection)


@contextmanager
def failing(what: str) -> Iterator[None]:
    """Put ``what`` before the reason of a :class:`ManagementError` that is raised inside."""
    try:
        yield
    except ManagementError as error:
        raise CommandError(f"{what}{error}") from error


def json_object(text: Any) -> Any:
    """The value of a result that holds JSON as text (the ``list…`` operations); other values as they are."""
    return json.loads(text) if isinstance(text, str) and text else text
