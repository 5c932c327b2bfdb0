"""The lock manager as a proof: who gets the next sequence, asked from the loop and answered by a thread."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeVar

from twisted.logger import Logger

from mqbroker.ha.at_latest import AtLatest
from mqbroker.ha.locks.claims import Claim, Claims
from mqbroker.storage.disk.diskwriter import DiskWriter

if TYPE_CHECKING:
    from mqbroker.ha.locks.contract import LockManager
    from mqbroker.messaging.ports import Cancellable, Clock

T = TypeVar("T")

AGAIN_SECONDS = 0.25
"""Before a commit without an answer is tried again."""

RELEASE_SECONDS = 5.0
"""How long an orderly stop waits until the lock is released."""

log = Logger(namespace="mqbroker.ha")


class Worker(DiskWriter, Protocol):
    """The thread of the lock manager."""

    def stop(self) -> None:
        """End the thread after what was submitted; a later submission starts another one."""


class LockProof:
    """Asks ``manager`` in the thread of ``worker``.  ``call`` lets another thread call on the loop.

    ``shared_name`` is the name of the lock that competing primaries have; None: it is the node id.
    """

    def __init__(
        self,
        manager: LockManager,
        worker: Worker,
        call: Callable[[Callable[[], object]], object],
        clock: Clock,
        shared_name: str | None = None,
    ) -> None:
        self._shared_name = shared_name
        self._claims = Claims(manager, lambda reason: call(partial(self._lost, reason)))
        self._worker = worker
        self._clock = clock
        self._told: Callable[[str], object] = lambda reason: None
        self._submitted = 0
        self._step = object()
        """Tells the answer that is waited for from late ones."""
        self._timer: Cancellable | None = None
        self._name = ""
        """The lock that this broker may have; empty for none."""

    def open(self, lost: Callable[[str], object]) -> None:
        """Connect, so that a manager that is not there is told of early; ``lost(reason)`` is called when its locks are lost."""
        self._told = lost
        self._connect()

    def _connect(self) -> None:
        def connected(warnings: list[str], error: Exception | None) -> None:
            if error is not None:
                log.warn("the lock manager does not answer: {error!r}", error=error)
            for text in warnings:
                log.warn("lock manager: {text}", text=text)

        self._run(lambda: list(self._claims.start()), lambda found, error: connected(found or [], error))

    def claim(self, node_id: str, sequence: int, done: Callable[[Claim | str], object]) -> None:
        """Claim ``sequence`` of the node; ``done`` hears the end, or why there is none, unless :meth:`stop` comes first."""
        self.stop()
        step = self._step
        self._name = name = self._shared_name or node_id

        def ended(claim: Claim | None, error: Exception | None) -> None:
            if step is self._step:
                done(f"the lock manager does not answer: {error!r}" if claim is None else claim)

        self._run(partial(self._claims.claim, name, sequence), ended)

    def commit(self, sequence: int, done: Callable[[bool], object]) -> None:
        """The claimed sequence is durable here; ``done`` hears whether it is committed, however long that takes, unless stopped before."""
        self.stop()
        self._commit(self._step, sequence, done)

    def _commit(self, step: object, sequence: int, done: Callable[[bool], object]) -> None:
        def ended(committed: bool | None, error: Exception | None) -> None:
            if step is not self._step:
                return
            if committed is None:
                log.warn("sequence {sequence} is not committed yet: {error!r}", sequence=sequence, error=error)
                self._timer = self._clock.call_later(AGAIN_SECONDS, self._commit, step, sequence, done)
            else:
                done(committed)

        self._run(partial(self._claims.commit, self._name, sequence), ended)

    def stop(self) -> None:
        """Wait for no answer any more."""
        self._step = object()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def release(self, done: Callable[[], object] = lambda: None) -> None:
        """Let another broker have the lock; then ``done``, after :data:`RELEASE_SECONDS` at the latest."""
        self.stop()
        name, self._name = self._name, ""
        if not name:
            done()
            return
        finish = AtLatest(self._clock, RELEASE_SECONDS, done)
        self._run(partial(self._claims.release, name), lambda _, error: finish())

    def close(self) -> None:
        """Release the lock, and disconnect; :meth:`open` connects again."""
        self.stop()
        self._name = ""
        self._run(self._claims.stop, lambda _, error: None)
        last = self._submitted

        def end_thread(error: Exception | None) -> None:
            if last == self._submitted:
                self._worker.stop()

        self._worker.submit([], end_thread)

    def _lost(self, reason: str) -> None:
        """The locks of this connection are lost: another connection is made."""
        log.warn("the lock manager has lost this broker: {reason}", reason=reason)
        self._run(self._claims.stop, lambda _, error: None)
        self._connect()
        self._told(reason)

    def _run(self, function: Callable[[], T], done: Callable[[T | None, Exception | None], object]) -> None:
        found: list[T] = []
        self._submitted += 1
        self._worker.submit([lambda: found.append(function())], lambda error: done(found[0] if error is None else None, error))
