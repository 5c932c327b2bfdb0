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
from tests.simulation.world import World
from tests.support.disk import Inode, SimulatedCrash, SimulatedDisk, SimulatedFile, SimulatedLock
from tests.support.diskwriter import WriterInTurns


@dataclass(frozen=True, slots=True)
class Turn:
    """A process has taken the folder.  ``operation`` tells what came before and after that."""

    time: float
    operation: int
    view: FolderView


class FolderWatch:
    """Knows who has taken a folder when; ``turns`` are counted from 1."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.turns: list[Turn] = []
        self._operations = 0

    def next_operation(self) -> int:
        self._operations += 1
        return self._operations

    def taken(self, view: FolderView) -> int:
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

    def is_former(self, view: FolderView) -> bool:
        return 0 < view.turn < len(self.turns)

    def acknowledged(self, view: FolderView) -> None:
        """A broker takes work for durable that it has synced: nobody may have taken the folder before that sync."""
        if self.is_former(view) and view.synced > self.turns[view.turn].operation:
            self.world.violation(
                f"{view.name} acknowledges what it has synced after {self.turns[view.turn].view.name} had taken the folder"
            )


class FolderView(SimulatedDisk):
    """The folder as one life of one process sees it.

    ``meet`` is called before each operation, with its name and a path: the process may stand still there, or end.  ``turn`` is
    the last that this process has taken, 0 = it waits.
    """

    def __init__(
        self,
        disk: SimulatedDisk,
        rng: random.Random,
        machine: str,
        name: str,
        watch: FolderWatch,
        meet: Callable[[str, str], object],
    ) -> None:
        super().__init__(rng, shared=disk, machine=machine)
        self.name = name
        self.turn = 0
        self.synced = 0
        """The operation that was the last sync of data."""
        self.checked = False
        """Has the step of the disk writer that runs found that the folder is its own?"""
        self.gone = False
        """The process has ended: what is left of it does nothing any more."""
        self.lost_locks_at: float | None = None
        self.met_held_state = False
        """Has it found that another process, which may have stood still, holds the lock of the state?"""
        self._watch = watch
        self._meets = meet
        self.epoch = b""
        """What it has written when it took the folder."""

    # --- what is observed

    def open(self, path: str) -> SimulatedFile:
        self._meet("open", path)
        new = path not in self._names
        file = super().open(path)
        if new:
            self._names[path].maker = self.turn
        return file

    def read(self, path: str, offset: int = 0, size: int = -1) -> bytes:
        self._meet("read", path)
        found = super().read(path, offset, size)
        if path.endswith(EPOCH_FILE):
            self.checked = self.turn > 0 and found == self.epoch
        return found

    def rename(self, old: str, new: str) -> None:
        self._meet("rename", new)
        self._judge("renames", old)
        self._judge("replaces", new)
        super().rename(old, new)

    def rename_new(self, old: str, new: str) -> None:
        self._meet("rename", new)
        self._judge("renames", old)
        super().rename_new(old, new)

    def remove(self, path: str) -> None:
        self._meet("remove", path)
        self._judge("removes", path)
        super().remove(path)

    def sync_directory(self, path: str) -> None:
        self._meet("sync_directory", path)
        super().sync_directory(path)

    def make_directory(self, path: str) -> None:
        self._meet("make_directory", path)
        super().make_directory(path)

    def remove_directory(self, path: str) -> None:
        self._meet("remove_directory", path)
        super().remove_directory(path)

    def lock(self, path: str, patience: float = 0.0) -> SimulatedLock | None:
        """A lock that is held for a moment here is one of a process that stands still: waiting would not help."""
        self._meet("lock", path)
        found = super().lock(path)
        self.met_held_state |= found is None and path.endswith(f"/{LOCK_FILE}")
        return found

    def write(self, inode: Inode, path: str, offset: int, data: bytes) -> None:
        self._meet("write", path)
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
        self._meet("sync", path)
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

    def _meet(self, operation: str, path: str) -> None:
        if not self.gone:
            self._meets(operation, path)
        if self.gone:
            raise SimulatedCrash

    # --- what happens to it

    def begins_anew(self) -> None:
        """The process waits again, or for the first time."""
        self.turn = 0
        self.lost_locks_at = None

    def lose_locks(self) -> None:
        super().lose_locks()
        self.lost_locks_at = self._watch.world.now

    def end_process(self) -> None:
        self.gone = True
        super().end_process()

    def crash(self) -> None:
        """Only its own machine loses its power."""
        self.lose_machine()
        self._watch.power_lost(next((bytes(inode.content) for path, inode in self._names.items() if path.endswith(EPOCH_FILE)), b""))


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
