"""The data source ``mqbroker`` with points at which a task fails when it is told to.

Whoever wants a failure makes a file in the folder of the option ``faults``, named as the point; the first task that comes there takes the
file away and fails.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, DataSourceStreamWriter, InputPartition, WriterCommitMessage
from pyspark.sql.types import StructType

from mqspark.options import Options, Use
from mqspark.reading.stream_reader import StreamReader
from mqspark.source import MqbrokerDataSource
from mqspark.writing import sending
from mqspark.writing.sink import StreamWriter

FORMAT = "mqbroker-faulty"
MODES = ("duplicateIds", "transactions")
READING = ("reading: before the first row", "reading: in the middle", "reading: at the end")
WRITING = ("before the first send", "in the middle", "after the last send, before its confirmation", "after the confirmation")
POINTS = (*(f"{mode}: {point}" for point in WRITING for mode in MODES), *READING)
"""Neighbours belong to different queries: a task that fails three times ends its query."""


class How(StrEnum):
    """What a failure is: an error in the task, or the end of its process."""

    ERROR = "error"
    DEATH = "death"


class PlannedFailure(Exception):
    pass


class Faults:
    """The failures that are wanted, as files in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def arm(self, point: str, how: How) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        beside = self._folder.parent / "fault"
        beside.write_text(how)
        beside.rename(self._folder / point)

    def pending(self, point: str) -> bool:
        return (self._folder / point).exists()

    def at(self, point: str) -> None:
        path = self._folder / point
        try:
            how = path.read_text()
            path.unlink()
        except FileNotFoundError:
            return
        if how == How.DEATH:
            os._exit(1)
        raise PlannedFailure(point)

    def in_halves(self, point: str, batches: Iterator[Any]) -> Iterator[Any]:
        """The same rows, with a point in the middle of each batch."""
        for rows in batches:
            half = max(1, rows.num_rows // 2)
            yield rows.slice(0, half)
            self.at(point)
            if half < rows.num_rows:
                yield rows.slice(half)


class FaultyReader(StreamReader):
    def __init__(self, options: Options, schema: StructType, faults: Faults) -> None:
        super().__init__(options, schema)
        self._faults = faults

    def __reduce__(self) -> tuple[object, ...]:
        return FaultyReader, (self._options, self._schema, self._faults)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        before, middle, end = READING
        self._faults.at(before)
        yield from self._faults.in_halves(middle, super().read(partition))
        self._faults.at(end)


class FaultyWriter(StreamWriter):
    faults: Faults

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        before, middle, unconfirmed, after = (f"{self._options.exactly_once}: {point}" for point in WRITING)
        self.faults.at(before)
        faults, flush = self.faults, sending.Sender.flush

        def failing(sender: sending.Sender) -> None:
            faults.at(unconfirmed)
            flush(sender)

        sending.Sender.flush = failing  # type: ignore[method-assign]
        try:
            written = super().write(faults.in_halves(middle, iterator))
        finally:
            sending.Sender.flush = flush  # type: ignore[method-assign]
        self.faults.at(after)
        return written


class FaultyDataSource(MqbrokerDataSource):
    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__({name: value for name, value in options.items() if name.lower() != "faults"})
        self.faults = Faults(Path(next(value for name, value in options.items() if name.lower() == "faults")))

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return FaultyReader(Options.parse(self.options, Use.READ_STREAM), schema, self.faults)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        writer = FaultyWriter(Options.parse(self.options, Use.WRITE_STREAM), schema, overwrite, committing=self._copied)
        writer.faults = self.faults
        return writer
