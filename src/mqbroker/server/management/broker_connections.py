"""The part of the resource ``broker`` about connections, sessions, consumers and producers: lists of them, and closing them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from mqbroker.server.management import views
from mqbroker.server.management.registry import ServerResource, as_int, as_text

if TYPE_CHECKING:
    from mqbroker.server.session.consumers import ServerConsumer
    from mqbroker.server.session.session import ServerSession
    from mqbroker.server.transport.connection import ServerConnection


class BrokerConnections(ServerResource):
    """The clients of the broker: their connections, sessions, consumers and producers."""

    def _connection(self, connection_id: Any) -> ServerConnection | None:
        return self.server.connections.get(as_text(connection_id))

    def sessions_of(self, connection_id: Any) -> list[ServerSession]:
        connection = self._connection(connection_id)
        return [session for session in self.server.all_sessions() if session.connection is connection]

    def consumers(self) -> list[ServerConsumer]:
        return list(views.consumers_of(self.server.all_sessions()))

    def close_connection(self, connection_id: Any) -> bool:
        connection = self._connection(connection_id)
        if connection is None:
            return False
        connection.fail("closed by management")
        return True

    def close_consumer_connections(self, address: str) -> bool:
        """Close the connections with a consumer on a queue of this address."""
        found = {consumer.session.connection for consumer in self.consumers() if consumer.queue.definition.address == address}
        return self.close_connections(lambda connection: connection in found)

    def close_connections(self, wanted: Callable[[ServerConnection], bool]) -> bool:
        found = [connection for connection in self.server.connections.values() if wanted(connection)]
        for connection in found:
            connection.fail("closed by management")
        return bool(found)

    def close_session(self, connection_id: Any, name: Any, force: Any = False) -> bool:
        for session in self.sessions_of(connection_id):
            if session.name == as_text(name):
                session.expel()
                return True
        return False

    def close_consumer(self, session_name: Any, consumer_id: Any) -> bool:
        session = self.server.sessions.by_name.get(as_text(session_name))
        if session is None:
            return False
        wanted = as_int(consumer_id)
        for consumer in list(session.consumers.by_id.values()):
            if wanted in (consumer.sequential_id, consumer.consumer_id):
                session.consumers.expel(consumer)
                return True
        return False

    def connections_json(self) -> str:
        rows = [
            {
                "connectionID": connection.connection_id,
                "clientAddress": connection.remote,
                "creationTime": connection.created_ms,
                "implementation": "RemotingConnectionImpl",
                "sessionCount": len(connection.sessions),
            }
            for connection in self.server.connections.values()
        ]
        return json.dumps(rows)

    @staticmethod
    def sessions_json(sessions: Iterable[ServerSession]) -> str:
        rows = [
            {
                "sessionID": session.name,
                "creationTime": session.created_ms,
                "consumerCount": len(session.consumers.by_id),
                **({"validatedUser": session.subject.name, "principal": session.subject.name} if session.subject.name else {}),
                **({"metadata": session.metadata} if session.metadata else {}),
            }
            for session in sessions
        ]
        return json.dumps(rows)

    @staticmethod
    def consumers_json(consumers: Iterable[ServerConsumer]) -> str:
        rows = [
            {
                **views.consumer_entry(consumer),
                "queueName": consumer.queue.name,
                "deliveringCount": len(consumer.unacknowledged),
                **({"filter": consumer.filter.text} if consumer.filter is not None else {}),
            }
            for consumer in consumers
        ]
        return json.dumps(rows)

    def producers_json(self) -> str:
        """The producers with the field names of the older lists."""
        rows = self.producer_rows()
        for row in rows:
            row["sessionID"], row["destination"] = row.pop("session"), row.pop("address")
        return json.dumps(rows)

    def producer_rows(self) -> list[views.Row]:
        return [
            {
                "id": f"{session.name}:{producer_id}",
                "name": str(producer_id),
                "session": session.name,
                "connectionID": session.connection.connection_id,
                "clientID": session.connection.client_id,
                "user": session.subject.name,
                "validatedUser": session.subject.name,
                "protocol": "CORE",
                "address": address,
                "localAddress": "",
                "remoteAddress": session.connection.remote,
                "creationTime": session.created_ms,
                "msgSent": session.sends.messages_sent,
                "msgSizeSent": 0,
                "lastProducedMessageID": None,
            }
            for session in self.server.all_sessions()
            for producer_id, address in session.sends.producers.items()
        ]
