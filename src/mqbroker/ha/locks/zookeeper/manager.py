"""The lock manager on ZooKeeper: contenders in a queue, and a number that is written together with a look at the own contender.

Below ``/<name>/locks/leases`` each contender is an ephemeral node with a growing number, and whoever has the lowest one has the lock.
Artemis takes the lock only where its own node is the only one, so brokers of both kinds and its command line exclude each other.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from mqbroker.ha.locks.contract import UnavailableError
from mqbroker.ha.locks.zookeeper.properties import CONNECT_STRING, SESSION_MS, ZooKeeperProperties
from mqbroker.ha.locks.zookeeper.session import NodeExistsError, NoNodeError, Session, VersionError

T = TypeVar("T")

Connect = Callable[[ZooKeeperProperties, Callable[[str], object]], Session]
"""Begins a session; its second argument is called once when the session has ended by itself, or may have.  Raises UnavailableError."""

SERVERS_MIN = 3
"""With fewer servers none may fail."""

_NUMBER = struct.Struct(">q")
_AGAIN = 3
"""How often something is tried that another client can hinder at any time, such as making a node below one that is just removed."""


class ZooKeeperLockManager:
    """See :class:`mqbroker.ha.locks.contract.LockManager`.  Raises ValueError for properties that are not its own."""

    def __init__(
        self, properties: Mapping[str, str], connect: Connect, entropy: Callable[[int], bytes], pause: Callable[[float], object]
    ) -> None:
        self._properties = ZooKeeperProperties.parse(properties)
        self._connect = connect
        self._pause = pause
        self._mark = str(uuid.UUID(bytes=entropy(16), version=4))
        """In the names of all contenders of this manager: so they are found after a lost answer."""
        self._session: Session | None = None

    def start(self, lost: Callable[[str], object]) -> Sequence[str]:
        self._session = session = self._connect(self._properties, lost)
        warnings = []
        asked, given, servers = self._properties.session_ms, session.timeout_ms, len(set(self._properties.servers))
        if given != asked:
            warnings.append(
                f"{SESSION_MS} is {asked}, and the ensemble {'shortens' if given < asked else 'lengthens'} the session to {given} ms: "
                "it allows 2 to 20 times its tickTime"
            )
        if servers < SERVERS_MIN:
            warnings.append(
                f"{CONNECT_STRING} has {servers} {'server' if servers == 1 else 'servers'}: of fewer than {SERVERS_MIN} none may fail"
            )
        return warnings

    def stop(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.close()

    def try_lock(self, name: str) -> bool:
        return self._repeated(lambda session: self._take(session, name))

    def has_lock(self, name: str) -> bool:
        if self._session is None:
            return False
        return self._repeated(lambda session: self._held(session, name) is not None)

    def unlock(self, name: str) -> None:
        if self._session is not None:
            self._repeated(lambda session: self._leave(session, name))

    def number(self, name: str) -> int:
        return self._repeated(lambda session: self._read(session, name)[0])

    def change_number(self, name: str, old: int, new: int) -> bool:
        uncertain = False

        def change(session: Session) -> bool:
            nonlocal uncertain
            for _ in range(_AGAIN):
                number, version = self._read(session, name)
                held = self._held(session, name)
                if held is None and uncertain:
                    raise UnavailableError(f"the lock {name} was lost before the answer to a change of its number came")
                if held is None or (number != old and not uncertain):
                    return False
                if number != old:
                    # Nobody else has had the lock since.
                    return number == new
                try:
                    session.write(self._number_path(name), _NUMBER.pack(new), version, held)
                    return True
                except UnavailableError:
                    uncertain = True
                    raise
                except (VersionError, NodeExistsError, NoNodeError):
                    pass  # an earlier request has taken effect late, or the lock is lost: the next look tells
            raise UnavailableError(f"{self._number_path(name)} changes again and again")

        return self._repeated(change)

    # --- the lock

    def _take(self, session: Session, name: str) -> bool:
        own, others = self._contenders(session, name)
        if own is None and not others:
            self._below(session, self._leases(name), lambda: self._contend(session, name))
            own, others = self._contenders(session, name)
            if own is None:
                raise UnavailableError(f"the contender for the lock {name} is gone")
        if own is None:
            return False
        if _place(own) < min(map(_place, others), default=_LAST):
            return True
        session.delete(f"{self._leases(name)}/{own}")
        return False

    def _contend(self, session: Session, name: str) -> None:
        session.create_contender(f"{self._leases(name)}/{self._prefix}lease-", self._mark.encode())

    def _held(self, session: Session, name: str) -> str | None:
        """The path of the contender by which this manager has the lock.  As long as it exists nobody else has the lock."""
        own, others = self._contenders(session, name)
        if own is None or _place(own) > min(map(_place, others), default=_LAST):
            return None
        return f"{self._leases(name)}/{own}"

    def _leave(self, session: Session, name: str) -> None:
        own, _ = self._contenders(session, name)
        if own is not None:
            session.delete(f"{self._leases(name)}/{own}")

    def _contenders(self, session: Session, name: str) -> tuple[str | None, list[str]]:
        """The contender of this manager, and those of others.  Own nodes left by former sessions or lost answers are removed."""
        leases = self._leases(name)
        try:
            session.sync(leases)
            names = session.children(leases)
        except NoNodeError:
            return None, []
        mine = sorted((each for each in names if each.startswith(self._prefix)), key=_place)
        own: str | None = None
        for each in mine:
            if own is None and session.owner(f"{leases}/{each}") == session.session_id:
                own = each
            else:
                session.delete(f"{leases}/{each}")
        return own, [each for each in names if not each.startswith(self._prefix)]

    @property
    def _prefix(self) -> str:
        """As Curator's protection against lost answers writes it."""
        return f"_c_{self._mark}-"

    # --- the number

    def _read(self, session: Session, name: str) -> tuple[int, int | None]:
        """The number and the version of its node, None when there is none."""
        path = self._number_path(name)
        try:
            session.sync(path)
            content, version = session.read(path)
        except NoNodeError:
            return 0, None
        if not content:
            return 0, version
        if len(content) != _NUMBER.size:
            raise UnavailableError(f"{path} is damaged: it has {len(content)} bytes, expected {_NUMBER.size}")
        return int(_NUMBER.unpack(content)[0]), version

    # --- requests

    def _repeated(self, request: Callable[[Session], T]) -> T:
        """``request`` may be repeated from its beginning."""
        left = self._properties.retries
        while True:
            session = self._session
            if session is None:
                raise UnavailableError("there is no connection to ZooKeeper")
            try:
                return request(session)
            except UnavailableError:
                if left == 0 or session.is_over:
                    raise
            left -= 1
            self._pause(self._properties.retries_ms / 1000)

    def _below(self, session: Session, folder: str, make: Callable[[], object]) -> None:
        """Make a node, and the folder for it where there is none."""
        for _ in range(_AGAIN):
            try:
                make()
                return
            except NoNodeError:
                self._make_folder(session, folder)
        raise UnavailableError(f"{folder} is removed again and again")

    @staticmethod
    def _make_folder(session: Session, folder: str) -> None:
        path = ""
        for part in folder.split("/")[1:]:
            path = f"{path}/{part}"
            try:
                session.create(path)
            except (NodeExistsError, NoNodeError):
                pass  # the next attempt to make what is in it tells

    def _leases(self, name: str) -> str:
        return f"{self._properties.base}/{name}/locks/leases"

    def _number_path(self, name: str) -> str:
        return f"{self._properties.base}/{name}/activation-sequence"


_LAST = 1 << 64


def _place(contender: str) -> int:
    """The place in the queue.  A node that is no contender stands before all: nobody gets a lock that is not understood."""
    number = contender.rpartition("-")[2]
    return int(number) if number.isdecimal() else -1
