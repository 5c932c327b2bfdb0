"""What the tests of replication share."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

from hypothesis import strategies as st

from mqbroker.storage.mirror.changes import (
    Allocate,
    Begin,
    Change,
    Close,
    MakeDirectory,
    Open,
    Remove,
    RemoveDirectory,
    Rename,
    Sync,
    SyncDirectory,
    Write,
    encode_change,
)
from mqbroker.storage.mirror.roots import Roots
from tests.support.disk import SimulatedDisk
from tests.unit.storage.support import BINDINGS, JOURNAL, LARGE, PAGING

ROOTS = Roots({"bindings": BINDINGS, "journal": JOURNAL, "large-messages": LARGE, "paging": PAGING})
REPLICA = "/data/replica"
REPLICA_ROOTS = Roots({name: f"{REPLICA}/{name}" for name in ROOTS})

FILES = st.sampled_from(("journal/a", "journal/b", "bindings/ä", "large-messages/1.msg", "paging/q-1/000000001.page"))
FOLDERS = st.sampled_from(("journal", "bindings", "large-messages", "paging", "paging/q-1"))


@contextmanager
def forbidden(disk: SimulatedDisk) -> Iterator[None]:
    """The folders ``lost+found`` of a disk belong to the system, and nobody else may touch them."""

    def guarded(operation: Callable[..., Any]) -> Callable[..., Any]:
        def run(path: str, *others: Any) -> Any:
            if path.endswith("/lost+found"):
                raise PermissionError(errno.EACCES, "permission denied", path)
            return operation(path, *others)

        return run

    with ExitStack() as stack:
        for name in ("list", "read", "open", "rename", "remove", "remove_directory"):
            stack.enter_context(mock.patch.object(disk, name, guarded(getattr(disk, name))))
        yield


def encoded(*changes: Change) -> bytes:
    return b"".join(bytes(buffer) for change in changes for buffer in encode_change(change))


@st.composite
def streams(draw: st.DrawFn) -> list[Change]:
    """Changes that keep to the rules of a stream."""
    changes: list[Change] = [Begin()]
    open_handles: list[int] = []
    for number in range(draw(st.integers(0, 30))):
        kinds = [0, 1, 2, 3, 4, 5]
        kinds += [6, 7, 8, 9] if open_handles else []
        match draw(st.sampled_from(kinds)):
            case 0:
                changes.append(MakeDirectory(draw(FOLDERS)))
            case 1:
                changes.append(RemoveDirectory(draw(FOLDERS)))
            case 2:
                changes.append(SyncDirectory(draw(FOLDERS)))
            case 3:
                changes.append(Rename(draw(FILES), draw(FILES)))
            case 4:
                changes.append(Remove(draw(FILES)))
            case 5:
                open_handles.append(number)
                changes.append(Open(number, draw(FILES)))
            case 6:
                changes.append(Allocate(draw(st.sampled_from(open_handles)), draw(st.integers(0, 1 << 40))))
            case 7:
                handle = draw(st.sampled_from(open_handles))
                changes.append(Write(handle, draw(st.integers(0, 1 << 39)), draw(st.binary(max_size=300))))
            case 8:
                changes.append(Sync(draw(st.sampled_from(open_handles))))
            case _:
                handle = draw(st.sampled_from(open_handles))
                open_handles.remove(handle)
                changes.append(Close(handle))
    return changes
