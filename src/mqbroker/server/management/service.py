"""Requests to the management address, and the replies to them (Artemis manual, "Using Management Messages")."""

from __future__ import annotations

import json
import re
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from twisted.logger import Logger
from twisted.python.failure import Failure

from mqbroker.messaging.message.message import Message
from mqbroker.messaging.turns.context import OperationContext
from mqbroker.messaging.turns.steps import Steps
from mqbroker.messaging.turns.undecided import Undecided
from mqbroker.server.management.registry import ManagementError, Registry
from mqbroker.server.transport.naming import split_qualified
from mqclient.errors import LargeMessageBodyError, MalformedPacketError, MQError, SecurityError
from mqclient.wire.bodies import decode_text, encode_text
from mqclient.wire.message import TYPE_TEXT, CoreMessage, user_id_text
from mqclient.wire.properties import BOOLEAN, STRING, TypedValue

if TYPE_CHECKING:
    from mqbroker.server.security.audit import AuditLog
    from mqbroker.server.server import Server
    from mqbroker.server.session_state import SessionState

RESOURCE_KEY = "_AMQ_ResourceName"
ATTRIBUTE_KEY = "_AMQ_Attribute"
OPERATION_KEY = "_AMQ_OperationName"
SUCCEEDED_KEY = "_AMQ_OperationSucceeded"
REPLY_TO_KEY = "JMSReplyTo"
CORRELATION_KEY = "JMSCorrelationID"

PARAMETERS_SIZE_MAX = 10 * 1024 * 1024
"""Bytes of the JSON text of one request's parameters."""

_PREFIXES = ("queue://", "topic://", "temp-queue://", "temp-topic://")

log = Logger(namespace="mqbroker.server.management")


class ManagementService:
    """Carries out management messages, and writes each operation with its user to ``audit``."""

    def __init__(self, server: Server, registry: Registry, audit: AuditLog) -> None:
        self._server = server
        self._registry = registry
        self._audit = audit
        configuration = server.configuration
        self._rbac = configuration.management_message_rbac
        self._rbac_prefix = configuration.management_rbac_prefix
        self._view_methods = re.compile(configuration.view_permission_method_match_pattern)

    def handle(self, session: SessionState, message: Message) -> None:
        """Carry out the request in ``message`` and send the reply, if one is wanted.  Never fails the session.

        Raises Undecided for a request that depends on a decision: the caller handles the message again once it is made.
        """
        resource = message.property(RESOURCE_KEY)
        operation = message.property(OPERATION_KEY)
        attribute = message.property(ATTRIBUTE_KEY)
        if not isinstance(resource, str) or not (isinstance(operation, str) or isinstance(attribute, str)):
            self._reply_later(session, message, {}, None)
            return
        name = operation if isinstance(operation, str) else attribute
        assert isinstance(name, str)
        try:
            if isinstance(operation, str):
                self._check(session, resource, operation, view=self._view_methods.match(operation) is not None)
                result = self._registry.begin(resource, operation, self._parameters(message))
            else:
                self._check(session, resource, name, view=True)
                result = self._registry.attribute(resource, name)
        except Undecided:
            raise
        except Exception as error:
            self._done(session, message, resource, operation, name, None, error)
            return
        if isinstance(result, Generator):
            self._do_steps(session, message, resource, operation, name, result)
        else:
            self._done(session, message, resource, operation, name, result, None)

    def _do_steps(self, session: SessionState, message: Message, resource: str, operation: object, name: str, steps: Steps[Any]) -> None:
        """Carry out work that may take long.  The connection that has asked for the work is not read meanwhile; all others are."""
        connection = session.connection
        finished = held = False

        def done(result: Any, failure: Exception | None) -> None:
            nonlocal finished
            finished = True
            try:
                self._done(session, message, resource, operation, name, result, failure)
            finally:
                if held:
                    connection.hear_again()

        self._server.messaging.core.steps.start(steps, done)
        if not finished:
            held = True
            connection.hold_back()

    def _done(
        self, session: SessionState, message: Message, resource: str, operation: object, name: str, result: Any, failure: Exception | None
    ) -> None:
        succeeded = failure is None
        if isinstance(failure, MQError):
            result = str(failure)
        elif failure is not None:
            log.failure(
                "management: {resource}.{name} failed",
                Failure(failure),  # type: ignore[no-untyped-call]
                resource=resource,
                name=name,
            )
            result = f"{type(failure).__name__}: {failure}"
        if isinstance(operation, str):
            self._audit.management(session.subject, session.connection.remote, resource, operation, succeeded)
        body = json.dumps([result], ensure_ascii=False, separators=(",", ":"), default=str) if result is not None or not succeeded else None
        self._reply_later(session, message, {SUCCEEDED_KEY: (BOOLEAN, succeeded)}, body)

    def _reply_later(self, session: SessionState, message: Message, properties: dict[str, TypedValue], body: str | None) -> None:
        """Reply once the effects of the request are durable."""
        session.context.run(self._server.store.ticket(), self._reply, message, properties, body)

    def _check(self, session: SessionState, resource: str, method: str, *, view: bool) -> None:
        found = self._registry.find(resource)
        if found is not None and found.FOR_BROKERS and self._server.security.enabled and not session.subject.is_cluster_user:
            raise SecurityError(f"{resource} is for the cluster user alone")
        if self._rbac:
            session.permissions.check("view" if view else "edit", f"{self._rbac_prefix}.{resource}.{method}")

    @staticmethod
    def _parameters(message: Message) -> list[Any]:
        if message.large is not None:
            try:
                body = message.large.read(0, PARAMETERS_SIZE_MAX + 1)
            except OSError as error:
                raise LargeMessageBodyError(f"the parameters cannot be read: {error}") from error
        else:
            body = message.buffer[4 : message.headers]
        if len(body) > PARAMETERS_SIZE_MAX:
            raise ManagementError(f"the parameters are longer than {PARAMETERS_SIZE_MAX} bytes")
        if not body:
            return []
        try:
            text = decode_text(body)
            parameters = [] if not text else json.loads(text)
        except (MalformedPacketError, ValueError, RecursionError) as error:
            raise ManagementError(f"the parameters are not a JSON array: {error}") from error
        if not isinstance(parameters, list):
            raise ManagementError("the parameters are not a JSON array")
        return parameters

    def _reply(self, request: Message, properties: dict[str, TypedValue], body: str | None) -> None:
        server = self._server
        target = request.property(REPLY_TO_KEY)
        if not isinstance(target, str) or not target:
            return
        for prefix in _PREFIXES:
            target = target.removeprefix(prefix)
        content = request.decoded()
        properties[REPLY_TO_KEY] = content.properties[REPLY_TO_KEY]
        correlation = content.properties.get(CORRELATION_KEY)
        if correlation is None and content.user_id is not None:
            correlation = (STRING, user_id_text(content.user_id))
        if correlation is not None:
            properties[CORRELATION_KEY] = correlation
        address, queue = split_qualified(target)
        reply = CoreMessage(
            message_id=server.store.next_id(),
            address=address,
            type=TYPE_TEXT,
            priority=0,
            properties=properties,
            body=encode_text(body),
        )
        try:
            server.messaging.sending.send(Message.of(reply), address, queue, None, OperationContext(server.store))
        except MQError as error:
            log.warn("management: the reply to {target} could not be sent: {error}", target=target, error=str(error))
