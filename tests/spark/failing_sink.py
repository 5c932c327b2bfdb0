"""The data source ``mqbroker`` as a sink that fails at each of its points once: in batch 0 at the first, in batch 1 at the second.

Options besides those of the sink: ``failAt``, ``tasks`` or ``driver``, and ``failFolder``, in which each failure leaves a file.  Points of
a task are those of the task of partition 0.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from mqspark.options import Options, Use
from mqspark.source import MqbrokerDataSource
from mqspark.transactions import branches
from mqspark.writing.sink import BATCH_PROPERTY, StreamWriter

TASK_POINTS = ("before any row", "between rows", "killed between rows", "after the last row", "after its end")
DRIVER_POINTS = ("before the commit", "after the commit")
TRANSACTION_POINTS = (*DRIVER_POINTS, "after the decision", "after a branch")


class PlannedFailure(Exception):
    pass


class Failures:
    """Each happens once, in whatever process: the one at ``points[n]`` in batch n."""

    def __init__(self, points: tuple[str, ...], folder: str) -> None:
        self.points = points
        self.folder = folder

    def happens_at(self, point: str, batch: int) -> bool:
        if self.points[batch : batch + 1] != (point,):
            return False
        try:
            (Path(self.folder) / point).touch(exist_ok=False)
        except FileExistsError:
            return False
        return True

    def at(self, point: str, batch: int) -> None:
        if self.happens_at(point, batch):
            raise PlannedFailure(point)

    def rows(self, batches: Iterator[Any], batch: int) -> Iterator[Any]:
        self.at("before any row", batch)
        for rows in batches:
            half = max(1, rows.num_rows // 2)
            yield rows.slice(0, half)
            self.at("between rows", batch)
            if self.happens_at("killed between rows", batch):
                os._exit(1)
            yield rows.slice(half)
        self.at("after the last row", batch)

    def arm_branches(self, batch: int) -> None:
        """Let the first or the second commit of a branch fail in this process."""
        failures, real = self, branches.NodeBranches.commit
        committed = 0

        def commit(self: branches.NodeBranches, xid: Any) -> None:
            nonlocal committed
            failures.at("after a branch" if committed else "after the decision", batch)
            committed += 1
            real(self, xid)

        branches.NodeBranches.commit = commit  # type: ignore[method-assign]


class FailingStreamWriter(StreamWriter):
    failures: Failures

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        context = TaskContext.get()
        assert context is not None
        if context.partitionId():
            return super().write(iterator)
        batch = int(context.getLocalProperty(BATCH_PROPERTY) or -1)
        written = super().write(self.failures.rows(iterator, batch))
        self.failures.at("after its end", batch)
        return written

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        self.failures.at("before the commit", batchId)
        self.failures.arm_branches(batchId)
        super().commit(messages, batchId)
        self.failures.at("after the commit", batchId)


class FailingDataSource(MqbrokerDataSource):
    @classmethod
    def name(cls) -> str:
        return "mqbroker-failing"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        own = {"failat", "failfolder"}
        rest = {name: value for name, value in self.options.items() if name.lower() not in own}
        options = Options.parse(rest, Use.WRITE_STREAM)
        driver = TRANSACTION_POINTS if options.exactly_once == "transactions" else DRIVER_POINTS
        writer = FailingStreamWriter(options, schema, overwrite, committing=self._copied)
        writer.failures = Failures(TASK_POINTS if self.options["failAt"] == "tasks" else driver, self.options["failFolder"])
        return writer
