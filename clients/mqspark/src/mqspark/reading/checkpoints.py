"""What Spark has written down about a streaming query: its offset log and its commit log, in the checkpoint's folder.

Both hold a file for each batch, named by its number: ``offsets/N`` is written before batch N begins, ``commits/N`` when its sink has it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

from mqspark.errors import BadOptionError, MqsparkError
from mqspark.reading.offsets import Offset

_NOTHING: Final = ("-", "")


class Checkpoint:
    """A folder on any file system that Arrow knows, or, with a Spark session, that Hadoop knows."""

    def __init__(self, path: str, spark: Any = None) -> None:
        """``path``: a folder or a URL.  Raises BadOptionError when there is no checkpoint."""
        self.path = path
        self._names, self._read = (_arrow if spark is None else _hadoop(spark))(path)

    def committed(self) -> tuple[int, list[Offset]] | None:
        """The last batch that is committed, and the offsets of this data source at its end; None when none is.

        Raises MqsparkError when a file cannot be read.
        """
        batches = [int(name) for name in self._names("commits") if name.isdigit()]
        if not batches:
            if not self._names("offsets") and not self._names(""):
                raise BadOptionError(f"there is no checkpoint of a query at {self.path}")
            return None
        batch = max(batches)
        return batch, offsets_of(self._read(f"offsets/{batch}").decode(), f"{self.path}/offsets/{batch}")


def has_begun(path: str) -> bool:
    """Has the query of this checkpoint committed a batch?  False as well where the folder cannot be read from here."""
    try:
        return any(name.isdigit() for name in Checkpoint(path)._names("commits"))
    except Exception:  # file systems have errors of their own, and not to know is none here
        return False


def offsets_of(text: str, name: str) -> list[Offset]:
    """The offsets of this data source among those of one file of an offset log; a query may have other sources, too."""
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


_Files = tuple[Callable[[str], list[str]], Callable[[str], bytes]]
"""The names in a folder of the checkpoint, none when it is missing; the content of a file."""


def _arrow(path: str) -> _Files:
    import pyarrow as pa
    from pyarrow import fs

    try:
        if "://" in path or path.startswith("file:"):
            system, root = fs.FileSystem.from_uri(path.replace("file:///", "file:/").replace("file:/", "file:///"))
        else:
            system, root = fs.LocalFileSystem(), path
    except (pa.ArrowInvalid, OSError) as error:
        raise BadOptionError(f"the checkpoint {path} cannot be opened: {error}") from None
    root = root.rstrip("/")

    def names(folder: str) -> list[str]:
        selector = fs.FileSelector(f"{root}/{folder}".rstrip("/"), allow_not_found=True)
        return [each.base_name for each in system.get_file_info(selector)]

    def read(name: str) -> bytes:
        try:
            with system.open_input_stream(f"{root}/{name}") as file:
                content: bytes = file.read()
                return content
        except OSError as error:
            raise MqsparkError(f"{path}/{name} cannot be read: {error}") from None

    return names, read


def _hadoop(spark: Any) -> Callable[[str], _Files]:
    def files(path: str) -> _Files:
        hadoop = spark._jvm.org.apache.hadoop.fs.Path
        root = hadoop(path)
        system = root.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())

        def names(folder: str) -> list[str]:
            place = hadoop(root, folder) if folder else root
            return [each.getPath().getName() for each in system.listStatus(place)] if system.exists(place) else []

        def read(name: str) -> bytes:
            place = hadoop(root, name)
            if not system.exists(place):
                raise MqsparkError(f"{path}/{name} cannot be read: it is missing")
            stream = system.open(place)
            try:
                return bytes(stream.readAllBytes())
            finally:
                stream.close()

        return names, read

    return files
