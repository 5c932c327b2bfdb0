"""Creating sessions: one at a time on a connection, again on the next one when it fails, and with nothing left behind when cancelled."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Protocol

from mqclient.core.connection.connection import Connection
from mqclient.core.runtime import Mutex, new_uuid
from mqclient.core.session.owner import SessionOwner
from mqclient.core.session.session import Session
from mqclient.errors import MQError, NotConnectedError
from mqclient.wire.packets import CreateSession

REDIRECTS_MAX = 16
"""Redirects that opening one session follows before it gives up: routers that send a client in circles."""


class CreatingFactory(SessionOwner, Protocol):
    """The session factory, as the creation of its sessions sees it."""

    async def usable_connection(self) -> Connection:
        """The connection, once it is there and its sessions are restored; raises why it will not come."""

    def session_opened(self, session: Session) -> None:
        """The broker has created a session."""


class SessionCreation:
    def __init__(self, factory: CreatingFactory) -> None:
        self._factory = factory
        self._turn = Mutex(factory.runtime)

    async def create(self, request: CreateSession, batch: int, exactly_once: bool) -> Session:
        """A session; one without a name gets a new one with each attempt."""
        factory = self._factory
        # Outside of the turn too, so that each of several callers waits for a reconnect once only.
        await factory.usable_connection()
        wanted = factory.runtime.create_future()
        made: list[Session] = []
        # In a task of its own: a cancelled call must not leave a session on the broker whose answer is under way.
        factory.runtime.spawn(self._create(request, batch, exactly_once, wanted, made))
        taken = False
        try:
            session: Session = await wanted
            taken = True
        finally:
            if made and not taken:
                made[0].close()
        return session

    async def _create(self, request: CreateSession, batch: int, exactly_once: bool, wanted: Any, made: list[Session]) -> None:
        runtime = self._factory.runtime
        async with self._turn:
            if runtime.is_done(wanted):
                return
            try:
                session = await self._open(request, batch, exactly_once)
            except Exception as error:  # every error belongs to the caller
                runtime.reject(wanted, error)
                return
        if runtime.is_done(wanted):
            await session.close()
        else:
            made.append(session)
            runtime.resolve(wanted, session)

    async def _open(self, request: CreateSession, batch: int, exactly_once: bool) -> Session:
        factory = self._factory
        for _ in range(REDIRECTS_MAX):
            connection = await factory.usable_connection()
            # The broker may still have the session of an attempt whose answer was lost.
            attempt = request if request.name else replace(request, name=new_uuid(factory.runtime))
            session = Session(factory, attempt, batch, exactly_once)
            try:
                version = await connection.create_session(attempt, session, recreate=False)
            except MQError:
                if connection.error is None or factory.closed:
                    raise
                # The connection failed, or the broker sends us elsewhere: once there is a new one, the call can be made again.
                continue
            if connection is not factory.connection or connection.error is not None:
                continue
            session.opened(connection, version)
            factory.session_opened(session)
            return session
        raise NotConnectedError(f"no session after {REDIRECTS_MAX} connections that failed or sent the client elsewhere")
