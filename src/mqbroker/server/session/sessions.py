"""All sessions of the broker: creation, reattachment, and unique names and metadata."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from twisted.logger import Logger

from mqbroker.server.session.link_consumers import of_home_link
from mqbroker.server.session.session import ServerSession
from mqbroker.server.transport.naming import check_length
from mqclient.errors import (
    IncompatibleVersionsError,
    MQError,
    SessionCreationRejectedError,
)
from mqclient.wire.frames import FIRST_USER_CHANNEL, SESSION_CHANNEL
from mqclient.wire.packets import HOME_LINK_KEY, VERSION_MIN, CreateSession, CreateSessionResponse, ReattachSession, ReattachSessionResponse

if TYPE_CHECKING:
    from twisted.python.failure import Failure

    from mqbroker.messaging.message.message import Message
    from mqbroker.server.security.security import Subject
    from mqbroker.server.server_state import ServerState
    from mqbroker.server.session_state import SessionState
    from mqbroker.server.transport.connection import ServerConnection

log = Logger(namespace="mqbroker.server")


class Sessions:
    """The live sessions by name.  ``to_management`` takes the messages to the management address."""

    def __init__(self, server: ServerState, to_management: Callable[[SessionState, Message], None]) -> None:
        self._server = server
        self._to_management = to_management
        self.by_name: dict[str, ServerSession] = {}
        self.total = 0

    # --- creation

    def create(self, connection: ServerConnection, request: CreateSession) -> None:
        """Handle CREATESESSION: check version, user and limits, then open the session and answer."""
        server = self._server
        try:
            self._check(connection, request)
        except MQError as error:
            connection.reject(error, SESSION_CHANNEL)
            return
        connection.declare_version(request.version)
        if request.client_id is not None:
            connection.client_id = request.client_id
        resume = connection.pause_frames()
        user = request.username
        decided = server.security.authenticate(
            user, request.password, connection.remote, connection.certificate, connection.security_domain
        )

        def accepted(subject: Subject) -> None:
            if not connection.closed:
                server.turn.run(self._open, connection, request, subject)

        def refused(failure: Failure) -> None:
            error = failure.value
            if not isinstance(error, MQError):
                log.failure("login of {user} from {remote} failed", failure=failure, user=user, remote=connection.remote)
                error = SessionCreationRejectedError("the login could not be checked")
            server.notifications.authentication_failed(user, connection.remote)
            if not connection.closed:
                server.turn.run(connection.reject, error, SESSION_CHANNEL)

        decided.addCallbacks(accepted, refused)
        decided.addErrback(lambda failure: log.failure("session creation failed", failure=failure))
        decided.addBoth(lambda result: resume())

    def _check(self, connection: ServerConnection, request: CreateSession) -> None:
        server = self._server
        if not VERSION_MIN <= request.version <= server.version:
            raise IncompatibleVersionsError(
                f"AMQ229104: Server and client versions incompatible (client {request.version}, server {VERSION_MIN} to {server.version})"
            )
        if not server.started:
            raise SessionCreationRejectedError("AMQ229008: Server not started")
        if request.session_channel_id < FIRST_USER_CHANNEL or request.session_channel_id in connection.sessions:
            raise SessionCreationRejectedError(f"channel {request.session_channel_id} cannot be used for a session")
        server.connection_limits.check_sessions(connection)
        for name in (request.name, request.client_id, request.username):
            check_length(name)

    def _free_name(self, connection: ServerConnection, request: CreateSession, subject: Subject) -> None:
        """A client whose connection has failed may ask again before this broker has noticed it: the session of its first try ends.

        Its temporary queues stay: it goes on with them, and they must not end with its former connection.
        """
        older = self.by_name.get(request.name)
        if older is None:
            return
        if older.connection is connection or older.subject.name != subject.name:
            raise SessionCreationRejectedError("a session of this name exists already")
        older.end(failed=True)
        older.connection.sessions.pop(older.channel, None)
        connection.adopt_resources(older.connection)

    def _open(self, connection: ServerConnection, request: CreateSession, subject: Subject) -> None:
        server = self._server
        try:
            self._free_name(connection, request, subject)
            if not connection.sessions and not connection.cluster_authorized:
                server.admission.check(subject)
            server.limits.check_sessions(subject.name, self.by_name.values())
        except MQError as error:
            connection.reject(error, SESSION_CHANNEL)
            return
        session = ServerSession(server, self, self._to_management, connection, request, subject, connection.version)
        connection.sessions[session.channel] = session
        connection.allow_large_frames()
        self.by_name[session.name] = session
        self.total += 1
        connection.send(CreateSessionResponse(server.version), SESSION_CHANNEL)
        server.notifications.session_created(session)

    # --- reattachment

    def reattach(self, connection: ServerConnection, request: ReattachSession) -> None:
        """Handle REATTACH_SESSION: a client continues its session on a new connection."""
        session = self.by_name.get(request.name)
        if session is None or session.closed or session.channel in connection.sessions:
            connection.send(ReattachSessionResponse(-1, False), SESSION_CHANNEL)
            return
        if not session.reattachable:
            self._refuse(session, connection)
            return
        # Packets of the old connection count as received once their work is durable; the answer waits for that.  The old connection is not
        # read meanwhile: a message stored after the answer would be sent again by the client.
        go_back = session.connection.pause_frames()
        session.context.run(0, self._transfer, session, connection, request, connection.pause_frames(), go_back)

    def _refuse(self, session: ServerSession, connection: ServerConnection) -> None:
        """The client has left its former connection, and makes new sessions, which go on with its temporary queues and get again what the
        old ones hold.

        All the old ones end together.  One that stayed until the client asks for it would be sent what another held, for nobody: with some
        more sessions such a message counts as tried too often.
        """
        connection.adopt_resources(session.connection)
        session.connection.left()
        connection.send(ReattachSessionResponse(-1, False), SESSION_CHANNEL)

    def _transfer(
        self,
        session: ServerSession,
        connection: ServerConnection,
        request: ReattachSession,
        resume: Callable[[], None],
        go_back: Callable[[], None],
    ) -> None:
        """All packets received before are durable: go on with the new connection, unless session or connection has ended meanwhile."""
        if connection.closed:
            go_back()
            return
        if session.closed or session.channel in connection.sessions:
            connection.send(ReattachSessionResponse(-1, False), SESSION_CHANNEL)
        elif not session.reattachable:  # more than is kept has come meanwhile
            self._refuse(session, connection)
        else:
            connection.declare_version(session.version)
            last = session.transfer(connection, request.last_confirmed_command_id)
            connection.send(ReattachSessionResponse(last, True), SESSION_CHANNEL)
            session.consumers.writable_changed()
        resume()

    # --- uniqueness and the end

    def claim_metadata(self, session: SessionState, key: str, data: str) -> bool:
        return all(other is session or other.metadata.get(key) != data for other in self.by_name.values())

    def end_former_link(self, session: SessionState) -> None:
        """What was in delivery over the earlier link goes back now, before the new one is sent what comes behind it."""
        node_id = session.metadata[HOME_LINK_KEY]
        self.end_links(node_id, f"member {node_id} has made a new link", session.connection)

    def end_links(self, node_id: str, reason: str, but: ServerConnection | None = None) -> None:
        """End the connections of home links that the member ``node_id`` has made, but for one."""
        for session in list(self.by_name.values()):
            if session.connection is not but and session.metadata.get(HOME_LINK_KEY) == node_id and of_home_link(session):
                session.connection.fail(reason)

    def ended(self, session: SessionState) -> None:
        if self.by_name.get(session.name) is session:
            del self.by_name[session.name]
            self._server.notifications.session_closed(session)
