"""A folder that several machines share: how each process sees it, and what must be true of what they do to it.

The judgement knows nothing of locks and states of brokers.  The process that wrote ``server.epoch`` last has the folder; all before are
*former holders*, whatever they believe.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from mqbroker.messaging.ports import Clock
from mqbroker.storage.disk.diskwriter import Done, Step
from mqbroker.storage.disk.epoch import EPOCH_FILE
from mqbroker.storage.disk.nodelock import LOCK_FILE, STATE_ACTIVE
from mqbroker.storage.files.folders import BINDINGS_MARK, JOURNAL_MARK
from tests.simulation.ha.process_disk import ProcessDisk
from tests.simulation.world import World
from tests.support.disk import Inode, SimulatedDisk, SimulatedFile, SimulatedLock
from tests.support.diskwriter import WriterInTurns


@dataclass(frozen=True, slots=True)
class Turn:
    """A process has taken the folder.  ``operation`` tells what came before and after that."""

    time: float
    operation: int
    view: JudgedFolder


class FolderWatch:
    """Knows who has taken a folder when; ``turns`` are counted from 1."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.turns: list[Turn] = []
        self._operations = 0

    def next_operation(self) -> int:
        self._operations += 1
        return self._operations

    def taken(self, view: JudgedFolder) -> int:
        """A process writes the epoch; returns which turn begins."""
        self.turns.append(Turn(self.world.now, self.next_operation(), view))
        self.world.note(f"{view.name} takes the folder: turn {len(self.turns)}")
        return len(self.turns)

    def power_lost(self, epoch: bytes) -> None:
        """The disk has this for the epoch now: who has written one that did not stay has read nothing either."""
        while self.turns and self.turns[-1].view.epoch != epoch and any(turn.view.epoch == epoch for turn in self.turns):
            self.turns.pop()

    def at(self, time: float) -> int:
        """Whose turn was it then?"""
        return sum(turn.time <= time for turn in self.turns)

    def is_former(self, view: JudgedFolder) -> bool:
        return 0 < view.turn < len(self.turns)

    def acknowledged(self, view: JudgedFolder) -> None:
        """A broker takes work for durable that it has synced: nobody may have taken the folder before that sync."""
        if self.is_former(view) and view.synced > self.turns[view.turn].operation:
            self.world.violation(
                f"{view.name} acknowledges what it has synced after {self.turns[view.turn].view.name} had taken the folder"
            )


class JudgedFolder(SimulatedDisk):
    """The folder as one machine sees it, and what a process on it may do.  ``turn`` is the last that it has taken, 0 = it waits."""

    def __init__(self, disk: SimulatedDisk, rng: random.Random, machine: str, name: str, watch: FolderWatch) -> None:
        super().__init__(rng, shared=disk, machine=machine)
        self.name = name
        self.turn = 0
        self.synced = 0
        """The operation that was the last sync of data."""
        self.checked = False
        """Has the step of the disk writer that runs found that the folder is its own?"""
        self.lost_locks_at: float | None = None
        self.met_held_state = False
        """Has it found that another process, which may have stood still, holds the lock of the state?"""
        self._watch = watch
        self.epoch = b""
        """What it has written when it took the folder."""

    # --- what is observed

    def open(self, path: str) -> SimulatedFile:
        new = path not in self._names
        file = super().open(path)
        if new:
            self._names[path].maker = self.turn
            if self._watch.is_former(self):
                # Who has stood still begins a body before it finds out; the holder does not know of it, and the next start removes it.
                self.not_removed.add(path)
        return file

    def read(self, path: str, offset: int = 0, size: int = -1) -> bytes:
        found = super().read(path, offset, size)
        if path.endswith(EPOCH_FILE):
            self.checked = self.turn > 0 and found == self.epoch
        return found

    def rename(self, old: str, new: str) -> None:
        self._judge("renames", old)
        self._judge("replaces", new)
        super().rename(old, new)

    def rename_new(self, old: str, new: str) -> None:
        self._judge("renames", old)
        super().rename_new(old, new)

    def remove(self, path: str) -> None:
        self._judge("removes", path)
        super().remove(path)

    def lock(self, path: str, patience: float = 0.0) -> SimulatedLock | None:
        """A lock that is held for a moment here is one of a process that stands still: waiting would not help."""
        found = super().lock(path)
        self.met_held_state |= found is None and path.endswith(f"/{LOCK_FILE}")
        return found

    def write(self, inode: Inode, path: str, offset: int, data: bytes) -> None:
        if path.endswith(EPOCH_FILE):
            self.turn, self.epoch = self._watch.taken(self), data
            self.lost_locks_at = None
        elif path.endswith(f"/{LOCK_FILE}"):
            self._judge_state(data[:1])
        elif self._watch.is_former(self) and inode.maker > self.turn:
            self._violation(f"writes to {path}, which is not its own")
        elif not self.turn and not path.endswith((JOURNAL_MARK, BINDINGS_MARK)):
            self._violation(f"writes to {path}, although it has not taken the folder")
        super().write(inode, path, offset, data)

    def sync(self, inode: Inode, path: str) -> None:
        super().sync(inode, path)
        if not path.endswith((EPOCH_FILE, f"/{LOCK_FILE}")):
            self.synced = self._watch.next_operation()

    def _judge(self, what: str, path: str) -> None:
        found = self._names.get(path)
        if found is not None and self._watch.is_former(self) and found.maker > self.turn:
            self._violation(f"{what} {path}, which is not its own")

    def _judge_state(self, state: bytes) -> None:
        """Who was held up between its look at the epoch and this write cannot know; the holder mends it."""
        if self._watch.is_former(self) and state != STATE_ACTIVE and not self.checked:
            self._violation(f"writes the state {state!r}")

    def _violation(self, text: str) -> None:
        former = ", a former holder," if self.turn else ""
        self._watch.world.violation(f"{self.name}{former} {text}")

    # --- what happens to it

    def begins_anew(self) -> None:
        """The process waits again, or for the first time."""
        self.turn = 0
        self.lost_locks_at = None

    def lose_locks(self) -> None:
        super().lose_locks()
        self.lost_locks_at = self._watch.world.now

    def crash(self) -> None:
        """Only its own machine loses its power."""
        self.lose_machine()
        self._watch.power_lost(next((bytes(inode.content) for path, inode in self._names.items() if path.endswith(EPOCH_FILE)), b""))


class FolderView(ProcessDisk, JudgedFolder):
    """The folder as one life of one process sees it, which is held up by ``meets``."""

    def __init__(
        self, disk: SimulatedDisk, rng: random.Random, machine: str, name: str, watch: FolderWatch, meets: Callable[[str, str], object]
    ) -> None:
        super().__init__(disk, rng, machine, name, watch)
        self.meets = meets


class JudgedWriter(WriterInTurns):
    """``reported`` is called after each report."""

    def __init__(
        self, view: FolderView, reported: Callable[[], object], in_turn: Callable[..., object], clock: Clock, delay: Callable[[], float]
    ) -> None:
        super().__init__(in_turn, clock, delay)
        self._view = view
        self._reported = reported

    def submit(self, steps: Sequence[Step], done: Done) -> None:
        super().submit([partial(self._run_step, step) for step in steps], partial(self._tell, done))

    def _run_step(self, step: Step) -> None:
        self._view.checked = False
        step()

    def _tell(self, done: Done, error: Exception | None) -> None:
        done(error)
        self._reported()
