"""The one place where storage leaves the event loop (decision 20)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

Step = Callable[[], object]
Done = Callable[[Exception | None], object]


class DiskWriter(Protocol):
    """Runs file operations off the loop.

    Batches run one after the other, in the order of submission, and each batch's steps in order.  A step that raises ends its batch.
    """

    @property
    def idle(self) -> bool:
        """Has every step that was submitted run?  Asked by the loop."""

    def submit(self, steps: Sequence[Step], done: Done) -> None:
        """Run ``steps``; then ``done``, on the loop, with None or with what a step raised.  Never calls ``done`` before it returns."""


def run_steps(steps: Sequence[Step]) -> Exception | None:
    """Run the steps of one batch here and now; returns what the first failing one raised."""
    try:
        for step in steps:
            step()
    except Exception as error:
        return error
    return None
