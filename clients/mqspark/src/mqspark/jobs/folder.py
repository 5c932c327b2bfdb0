"""Small files in a folder that may be anywhere that Spark can reach: local disk, HDFS, an object store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mqspark.jobs.status import JobError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Folder:
    """A folder through Hadoop's file systems, with the credentials that Spark has."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        jvm = getattr(spark, "_jvm", None)
        if jvm is None:
            raise JobError("this job needs a session that is not Spark Connect's: it keeps files of its own beside the archive")
        self._jvm: Any = jvm
        self._path: Any = jvm.org.apache.hadoop.fs.Path(path)
        self._files: Any = self._path.getFileSystem(spark._jsc.hadoopConfiguration())

    def has(self, name: str) -> bool:
        """Is there a file or folder of this name?"""
        return bool(self._files.exists(self._child(name)))

    def names(self) -> list[str]:
        """What is in the folder; nothing when it does not exist."""
        if not self._files.exists(self._path):
            return []
        return sorted(str(status.getPath().getName()) for status in self._files.listStatus(self._path))

    def read(self, name: str) -> str:
        """The text of a file."""
        stream = self._files.open(self._child(name))
        try:
            return bytes(stream.readAllBytes()).decode("utf-8")
        finally:
            stream.close()

    def write(self, name: str, text: str) -> None:
        """Write a new file, whole or not at all: under another name first.  The folder is made when it is missing."""
        begun = self._child(f".{name}.tmp")
        stream = self._files.create(begun, True)
        try:
            stream.write(bytearray(text.encode("utf-8")))
        finally:
            stream.close()
        if not self._files.rename(begun, self._child(name)):
            self._files.delete(begun, False)
            raise JobError(f"the file {name} in {self._path.toString()} cannot be written: there is one already")

    def remove(self, name: str) -> None:
        """Remove a file; nothing happens when it is gone."""
        self._files.delete(self._child(name), False)

    def _child(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self._path, name)
