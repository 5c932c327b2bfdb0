"""The folder of a shared store, as one of its brokers sees it: locks, state, and the epoch that fences former holders."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from enum import Enum, auto

from mqbroker.storage.disk.epoch import Epoch
from mqbroker.storage.disk.filesystem import FileLock, FileSystem, join
from mqbroker.storage.disk.nodelock import (
    BACKUP_LOCK_FILE,
    LOCK_FILE,
    PRIMARY_LOCK_FILE,
    STATE_ACTIVE,
    STATE_FAILING_BACK,
    STATE_FIRST_TIME,
    STATE_NOT_STARTED,
    STATE_PAUSED,
    NodeLock,
)
from mqbroker.storage.errors import FencedError, StorageError, StoreLockedError

_STATES = (STATE_ACTIVE, STATE_FAILING_BACK, STATE_PAUSED, STATE_NOT_STARTED, STATE_FIRST_TIME)


class Found(Enum):
    """The result of an attempt to get the folder."""

    HELD = auto()
    """Another broker is active."""
    NOT_WANTED = auto()
    """The lock is free, but the state says that a primary has left it so on purpose, or is on its way: backups keep off."""
    TAKEN = auto()


class SharedFolder:
    """Implements :class:`mqbroker.storage.disk.claim.Claim`.

    Every method blocks.  The disk writer of the store runs those that are called while the broker runs, so that they have one order with
    its writes.  With ``hands_over`` an orderly end looks like a crash, so that another broker goes on at once.
    """

    def __init__(self, file_system: FileSystem, directory: str, entropy: Callable[[int], bytes], hands_over: bool) -> None:
        self.node_id = ""
        self.hands_over = hands_over
        self._file_system = file_system
        self._directory = directory
        self._lock = NodeLock(file_system, directory)
        self._epoch = Epoch(file_system, directory, entropy)
        self._active: FileLock | None = None
        self._next: FileLock | None = None
        self._found = STATE_FAILING_BACK
        """The state before this broker has changed it."""
        self.problem: str | None = None
        """Why the last lock could not even be asked for."""
        self._missing: Callable[[], str]

    @property
    def token(self) -> str:
        return self._epoch.token

    @property
    def epoch(self) -> int:
        """0 as long as this broker has not taken the folder."""
        return self._epoch.number

    def owns(self, node_id: str) -> bool:
        return node_id == self.node_id

    # --- waiting

    def open(self, missing: Callable[[], str]) -> None:
        self._missing = missing
        self._check_locks()
        # A broker that waits may stand still with the lock of the state; the node id is learned with the next look then.
        with contextlib.suppress(StoreLockedError):
            self._learn_node_id()

    def _check_locks(self) -> None:
        """Refuse a file system whose locks do not exclude anybody."""
        path = join(self._directory, "server.lock.test")
        first = self._file_system.lock(path)
        if first is None:
            return  # somebody is here for the same reason
        try:
            second = self._file_system.lock(path)
            if second is not None:
                second.release()
                raise StorageError(f"{self._directory}: locks do not exclude others on this file system, so that brokers cannot share it")
        finally:
            first.release()

    def queue(self) -> bool:
        """Become the backup that is next; false when there is one."""
        self._next = self._try_lock(BACKUP_LOCK_FILE)
        return self._next is not None

    def take_as_primary(self) -> Found:
        """Backups keep off from now on, and one that is active may give way."""
        return self._unless_held_up(self._take_as_primary)

    def take_as_backup(self) -> Found:
        return self._unless_held_up(self._take_as_backup)

    def _unless_held_up(self, take: Callable[[], Found]) -> Found:
        """A broker that waits may be held up in the middle of its look at the state: that is no reason to end."""
        self.problem = None
        try:
            return take()
        except StoreLockedError as error:
            self._unlock()
            self.problem = str(error)
            return Found.HELD

    def _take_as_primary(self) -> Found:
        state = self._state()
        if state != STATE_FAILING_BACK:
            self._found = state
            self._lock.write_state(STATE_FAILING_BACK)
        if self._locked():
            return self._take()
        self._learn_node_id()
        return Found.HELD

    def want_no_more(self) -> None:
        """The primary leaves before it has got the folder: the broker that is active has its backups again."""
        if self._active is None and self._state() == STATE_FAILING_BACK and self._found == STATE_ACTIVE:
            self._lock.write_state(STATE_ACTIVE)

    def _take_as_backup(self) -> Found:
        self._learn_node_id()
        if self._state() != STATE_ACTIVE:
            return Found.NOT_WANTED
        if not self._locked():
            return Found.HELD
        if self._state() != STATE_ACTIVE:
            self._unlock()
            return Found.NOT_WANTED
        self._found = STATE_ACTIVE
        return self._take()

    def _learn_node_id(self) -> None:
        """A new folder has none until its first primary is active."""
        self.node_id = self.node_id or self._lock.node_id() or ""

    def _locked(self) -> bool:
        self._active = self._try_lock(PRIMARY_LOCK_FILE)
        return self._active is not None

    def _try_lock(self, name: str) -> FileLock | None:
        """As Artemis does it, who cannot ask for a lock asks again later."""
        try:
            lock = self._file_system.lock(join(self._directory, name))
        except OSError as error:
            self.problem = str(error)
            return None
        self.problem = None
        return lock

    def _take(self) -> Found:
        try:
            self._epoch.begin()
            self.node_id = self._lock.make_node_id(self._missing)
        except BaseException:
            self._unlock()
            raise
        return Found.TAKEN

    def _unlock(self) -> None:
        if self._active is not None:
            active, self._active = self._active, None
            active.release()

    def _state(self) -> bytes:
        state = self._lock.state()
        if state not in _STATES:
            raise StorageError(f"{join(self._directory, LOCK_FILE)}: {state!r} is not a state")
        return state

    # --- active

    def check(self) -> None:
        self._epoch.check()

    def activated(self) -> None:
        self._lock.write_state(STATE_ACTIVE)
        self._leave_queue()

    def watch(self, doubts: bool = False) -> bool:
        """Does a primary want the folder?  With ``doubts`` it has to say so again, as only one that lives does.

        Raises FencedError when the folder is another broker's, other errors when nobody can tell.
        """
        self.check()
        again = self._file_system.lock(join(self._directory, PRIMARY_LOCK_FILE))
        if again is not None:
            again.release()
            raise FencedError(f"{self._directory}: the lock of {PRIMARY_LOCK_FILE} is lost")
        if not self._file_system.exists(join(self._directory, LOCK_FILE)):
            raise FencedError(f"{join(self._directory, LOCK_FILE)} is gone")
        try:
            state = self._state()
            wanted = state == STATE_FAILING_BACK
            # Another state than these two is that of a former holder that has stopped late.
            if state != STATE_ACTIVE and (doubts or not wanted):
                self._lock.write_state(STATE_ACTIVE)
        except StoreLockedError:
            # A broker that waits was held up, or lost its machine, in the middle of its look: that is no reason to end.
            return False
        return wanted

    # --- the end

    def withdraw(self) -> None:
        if self._active is not None:
            self.check()
            self._lock.write_state(self._found)

    def leave(self) -> None:
        self.check()
        if not self.hands_over:
            self._lock.write_state(STATE_PAUSED)

    def release(self) -> None:
        self._leave_queue()
        self._unlock()

    def _leave_queue(self) -> None:
        """The next backup may queue: this one is active."""
        if self._next is not None:
            waiting, self._next = self._next, None
            waiting.release()
