"""The locks and the state of a shared store, as its brokers use them: one of them gets it, and notes at the end how it has ended.

Where locks and state are is behind :class:`Locks`: in a folder (:mod:`mqbroker.ha.shared_store.folder`) or in a database
(:mod:`mqbroker.ha.shared_store.rows`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from enum import Enum, auto
from typing import Protocol

from mqbroker.storage.disk.nodelock import (
    STATE_ACTIVE,
    STATE_FAILING_BACK,
    STATE_FIRST_TIME,
    STATE_NOT_STARTED,
    STATE_PAUSED,
)
from mqbroker.storage.errors import StorageError

_STATES = (STATE_ACTIVE, STATE_FAILING_BACK, STATE_PAUSED, STATE_NOT_STARTED, STATE_FIRST_TIME)


class Found(Enum):
    """The result of an attempt to get the store."""

    HELD = auto()
    """Another broker is active."""
    NOT_WANTED = auto()
    """The lock is free, but the state says that a primary has left it so on purpose, or is on its way: backups keep off."""
    TAKEN = auto()


class HeldUpError(StorageError):
    """Locks and state cannot be asked for now; the same may succeed later."""


class Locks(Protocol):
    """The primary lock, that of the backup that is next, and the state of one store.  All methods block.

    Every method may raise :class:`HeldUpError`, and other errors where trying again does not help.
    """

    name: str
    """For messages."""

    @property
    def token(self) -> str:
        """See :class:`mqbroker.storage.disk.claim.Claim`."""

    @property
    def epoch(self) -> int:
        """Grows with every holder of the primary lock; 0 as long as this broker has not had it."""

    def open(self) -> None:
        """Raises StorageError where locks do not exclude anybody."""

    def node_id(self) -> str:
        """Empty as long as no primary was active."""

    def make_node_id(self, missing: Callable[[], str]) -> str:
        """The node id; that of ``missing`` where there is none."""

    def state(self) -> bytes: ...

    def write_state(self, state: bytes) -> None: ...

    def lock(self) -> bool:
        """Get the primary lock; false when another broker has it."""

    def begin(self) -> None:
        """The lock is ours: no former holder writes anything from now on."""

    def check(self) -> None:
        """Raises FencedError when there is a later holder."""

    def check_lock(self) -> None:
        """Raises FencedError when the lock, or the place itself, is lost."""

    def unlock(self) -> None:
        """Others may have the primary lock; without effect where this broker does not have it."""

    def queue(self) -> bool:
        """Become the backup that is next, or remain it; false when another broker is."""

    def leave_queue(self) -> None:
        """Another backup may be next; without effect where this broker is not."""

    def close(self) -> None:
        """Nothing more is asked."""


class SharedPlace:
    """One broker's part in a shared store.  Implements :class:`mqbroker.storage.disk.claim.Claim`.

    Every method blocks.  The disk writer of the store runs those that are called while the broker runs, so that they have one order with
    its writes.  With ``hands_over`` an orderly end looks like a crash, so that another broker goes on at once.
    """

    def __init__(self, locks: Locks, hands_over: bool) -> None:
        self.node_id = ""
        self.hands_over = hands_over
        self._locks = locks
        self._active = self._next = False
        """Does this broker have the primary lock, and is it the backup that is next?"""
        self._found = STATE_FAILING_BACK
        """The state before this broker has changed it."""
        self.problem: str | None = None
        """Why the last lock could not even be asked for."""
        self._missing: Callable[[], str]

    @property
    def token(self) -> str:
        return self._locks.token

    @property
    def epoch(self) -> int:
        """0 as long as this broker has not taken the store."""
        return self._locks.epoch

    def owns(self, node_id: str) -> bool:
        return node_id == self.node_id

    # --- waiting

    def open(self, missing: Callable[[], str]) -> None:
        self._missing = missing
        self._locks.open()
        # A broker that waits may stand still with the lock of the state; the node id is learned with the next look then.
        with contextlib.suppress(HeldUpError):
            self._learn_node_id()

    def queue(self) -> bool:
        """Become the backup that is next; false when there is one."""
        try:
            self._next = self._locks.queue()
        except HeldUpError as error:
            self.problem = str(error)
            return False
        self.problem = None
        return self._next

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
        except HeldUpError as error:
            self._unlock()
            self.problem = str(error)
            return Found.HELD

    def _take_as_primary(self) -> Found:
        state = self._state()
        if state != STATE_FAILING_BACK:
            self._found = state
            self._locks.write_state(STATE_FAILING_BACK)
        if self._locked():
            return self._take()
        self._learn_node_id()
        return Found.HELD

    def want_no_more(self) -> None:
        """The primary leaves before it has got the store: the broker that is active has its backups again."""
        if not self._active and self._state() == STATE_FAILING_BACK and self._found == STATE_ACTIVE:
            self._locks.write_state(STATE_ACTIVE)

    def _take_as_backup(self) -> Found:
        self._learn_node_id()
        # A place in the queue may be lost while this broker stands still.
        if self._next and not self._locks.queue():
            return Found.HELD
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
        """A new store has none until its first primary is active."""
        self.node_id = self.node_id or self._locks.node_id()

    def _locked(self) -> bool:
        self._active = self._locks.lock()
        return self._active

    def _take(self) -> Found:
        try:
            self._locks.begin()
            self.node_id = self._locks.make_node_id(self._missing)
        except BaseException:
            self._unlock()
            raise
        return Found.TAKEN

    def _unlock(self) -> None:
        if self._active:
            self._active = False
            self._locks.unlock()

    def _state(self) -> bytes:
        state = self._locks.state()
        if state not in _STATES:
            raise StorageError(f"{self._locks.name}: {state!r} is not a state")
        return state

    # --- active

    def check(self) -> None:
        self._locks.check()

    def activated(self) -> None:
        self._locks.write_state(STATE_ACTIVE)
        self._leave_queue()

    def watch(self, doubts: bool = False) -> bool:
        """Does a primary want the store?  With ``doubts`` it has to say so again, as only one that lives does.

        Raises FencedError when the store is another broker's, other errors when nobody can tell.
        """
        try:
            self.check()
            self._locks.check_lock()
            state = self._state()
            wanted = state == STATE_FAILING_BACK
            # Another state than these two is that of a former holder that has stopped late.
            if state != STATE_ACTIVE and (doubts or not wanted):
                self._locks.write_state(STATE_ACTIVE)
        except HeldUpError:
            # A broker that waits was held up, or lost its machine, in the middle of its look: that is no reason to end.
            return False
        return wanted

    # --- the end

    def withdraw(self) -> None:
        if self._active:
            self.check()
            self._locks.write_state(self._found)

    def leave(self) -> None:
        self.check()
        if not self.hands_over:
            self._locks.write_state(STATE_PAUSED)

    def release(self) -> None:
        self._leave_queue()
        self._unlock()
        self._locks.close()

    def _leave_queue(self) -> None:
        """The next backup may queue: this one is active."""
        if self._next:
            self._next = False
            self._locks.leave_queue()
