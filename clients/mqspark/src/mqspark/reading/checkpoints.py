"""The checkpoint of a streaming query: the offset log and the commit log that Spark keeps in a folder.

Both hold a file for each batch, named by its number: ``offsets/N`` is written before batch N begins, ``commits/N`` when its sink has it.
"""

from __future__ import annotations

import json
from typing import Any, Final

from mqspark.errors import BadOptionError, MqsparkError
from mqspark.reading.offsets import Offset

_NOTHING: Final = ("-", "")


class Checkpoint:
    """A folder on any file system that Arrow knows, or, with a Spark session, that Hadoop knows."""

    def __init__(self, path: str, spark: Any = None) -> None:
        """``path``: a folder or a URL.  Raises BadOptionError when there is no checkpoint."""
        self.path = path
        self._folder = ArrowFolder(path) if spark is None else HadoopFolder(spark, path)

    def committed(self) -> tuple[int, list[Offset]] | None:
        """The last batch that is committed, and the offsets of this data source at its end; None when none is.

        Raises MqsparkError when a file cannot be read.
        """
        batches = [int(name) for name in self._folder.names("commits") if name.isdigit()]
        if not batches:
            if not self._folder.names("offsets") and not self._folder.names():
                raise BadOptionError(f"there is no checkpoint of a query at {self.path}")
            return None
        batch = max(batches)
        return batch, offsets_of(self._folder.read(f"offsets/{batch}").decode(), f"{self.path}/offsets/{batch}")


def has_begun(path: str) -> bool:
    """Has the query of this checkpoint committed a batch?  False as well where the folder cannot be read from here."""
    try:
        return any(name.isdigit() for name in ArrowFolder(path).names("commits"))
    except Exception:  # file systems have errors of their own, and not to know is none here
        return False


def offsets_of(text: str, name: str) -> list[Offset]:
    """The offsets of this data source in one file of an offset log; a query may have other sources, too."""
    version, _, rest = text.partition("\n")
    if not version.startswith("v"):
        raise MqsparkError(f"{name} is not a file of an offset log: it begins with {version[:20]!r}")
    found: list[Offset] = []
    for line in rest.split("\n")[1:]:
        if line not in _NOTHING:
            _collect(line, found)
    return found


def _collect(text: str, found: list[Offset]) -> None:
    """An offset stands there as it is, or as a text in an object by the number or name of its source."""
    try:
        content = json.loads(text)
    except ValueError:
        return
    if not isinstance(content, dict):
        return
    if "reader" in content and "nodes" in content:
        found.append(Offset.parse(content))
        return
    for value in content.values():
        if isinstance(value, str):
            _collect(value, found)
        elif isinstance(value, dict):
            _collect(json.dumps(value), found)


class ArrowFolder:
    """A folder on any file system that Arrow knows.  Raises BadOptionError for a path that it cannot use."""

    def __init__(self, path: str) -> None:
        import pyarrow as pa
        from pyarrow import fs

        self.path = path
        try:
            if "://" in path or path.startswith("file:"):
                self._files, root = fs.FileSystem.from_uri(path.replace("file:///", "file:/").replace("file:/", "file:///"))
            else:
                self._files, root = fs.LocalFileSystem(), path
        except (pa.ArrowInvalid, OSError) as error:
            raise BadOptionError(f"the checkpoint {path} cannot be opened: {error}") from None
        self._root = root.rstrip("/")

    def names(self, folder: str = "") -> list[str]:
        """The names in this folder, or in one of its folders; none when that is missing."""
        from pyarrow import fs

        selector = fs.FileSelector(f"{self._root}/{folder}".rstrip("/"), allow_not_found=True)
        return [each.base_name for each in self._files.get_file_info(selector)]

    def read(self, name: str) -> bytes:
        """The content of a file.  Raises MqsparkError."""
        try:
            with self._files.open_input_stream(f"{self._root}/{name}") as file:
                content: bytes = file.read()
                return content
        except OSError as error:
            raise MqsparkError(f"{self.path}/{name} cannot be read: {error}") from None


class HadoopFolder:
    """A folder on any file system that Hadoop knows, with the credentials that Spark has."""

    def __init__(self, spark: Any, path: str) -> None:
        self.path = path
        self._java_path = spark._jvm.org.apache.hadoop.fs.Path
        self._files = self._java_path(path).getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())

    def has(self, name: str) -> bool:
        """Is there a file or folder of this name?"""
        return bool(self._files.exists(self._place(name)))

    def names(self, folder: str = "") -> list[str]:
        """The names in this folder, or in one of its folders, sorted; none when that is missing."""
        return sorted(each.getPath().getName() for each in self._files.listStatus(self._place(folder))) if self.has(folder) else []

    def read(self, name: str) -> bytes:
        """The content of a file.  Raises MqsparkError when it is missing."""
        if not self.has(name):
            raise MqsparkError(f"{self.path}/{name} cannot be read: it is missing")
        stream = self._files.open(self._place(name))
        try:
            return bytes(stream.readAllBytes())
        finally:
            stream.close()

    def _place(self, name: str) -> Any:
        return self._java_path(self.path, name) if name else self._java_path(self.path)
