"""Small files in a folder that may be anywhere that Spark can reach: local disk, HDFS, an object store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mqspark.jobs.status import JobError
from mqspark.reading.checkpoints import HadoopFolder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Folder(HadoopFolder):
    """A folder whose files can also be written and removed."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        if getattr(spark, "_jvm", None) is None:
            raise JobError("this job needs a session that is not Spark Connect's: it keeps files of its own beside the archive")
        super().__init__(spark, path)

    def write(self, name: str, text: str) -> None:
        """Write a new file, whole or not at all: under another name first.  The folder is made when it is missing."""
        begun = self._place(f".{name}.tmp")
        stream = self._files.create(begun, True)
        try:
            stream.write(bytearray(text.encode("utf-8")))
        finally:
            stream.close()
        if not self._files.rename(begun, self._place(name)):
            self._files.delete(begun, False)
            raise JobError(f"the file {name} in {self.path} cannot be written: there is one already")

    def remove(self, name: str) -> None:
        """Remove a file; nothing happens when it is gone."""
        self._files.delete(self._place(name), False)
