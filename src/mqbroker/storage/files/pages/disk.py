"""The disk writer's work on pages: folders, files, frames."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import partial

from twisted.logger import Logger

from mqbroker.storage.disk.diskwriter import DiskWriter, Step
from mqbroker.storage.disk.filesystem import FileSystem, join
from mqbroker.storage.files.journal.pages import Folder, Page, PageWrite
from mqclient.storageformat.files import is_folder_name, page_number
from mqclient.storageformat.frames import encode_frame

ADDRESS_FILE = "address.txt"


class PageDisk:
    """The folder of all pages.  With ``purges`` the folder of an address goes with its last page."""

    _log = Logger()

    def __init__(self, file_system: FileSystem, directory: str, purges: bool, writer: DiskWriter) -> None:
        self._file_system = file_system
        self._directory = directory
        self._purges = purges
        self._writer = writer
        self._left: list[Page] = []
        """Pages that are full, whose files are still open."""

    def leave(self, page: Page) -> None:
        """Nothing is appended to the page any more: its file is closed after what it has still to get."""
        self._left.append(page)

    @property
    def idle(self) -> bool:
        """No file waits to be closed."""
        return not self._left

    def write_steps(self, writes: Iterable[tuple[Page, PageWrite]], sync: bool) -> list[Step]:
        """Write what groups of the journal have for pages."""
        frames: dict[Page, list[tuple[int, list[bytes]]]] = {}
        counts: dict[Page, int] = {}
        for page, write in writes:
            counts[page] = counts.get(page, 0) + 1
            frames.setdefault(page, []).extend(write.frames)
            write.frames = []
        steps: list[Step] = []
        for page, data in frames.items():
            begins = not page.begun
            if begins:
                page.begun = True
                if not page.folder.begun:
                    page.folder.begun = True
                    steps.append(partial(self._make_folder, page.folder))
                steps.append(partial(self._create, page))
            steps.append(partial(_write, page, data, page.readable_end))
            if sync:
                steps.append(partial(_sync, page))
                if begins:
                    steps.append(partial(self._file_system.sync_directory, page.folder.directory))
        for page in [page for page in self._left if page.writes == counts.get(page, 0)]:
            self._left.remove(page)
            steps.append(page.close_file)
        return steps

    def remove(self, pages: list[Page]) -> None:
        """Remove the files of pages that are recorded as gone."""
        folders: dict[Folder, list[Page]] = {}
        for page in pages:
            folders.setdefault(page.folder, []).append(page)
        for folder, own in folders.items():
            steps: list[Step] = [partial(self._remove_files, [page for page in own if page.begun])]
            if self._purges and folder.begun and not folder.pages:
                folder.begun = False
                steps += (
                    partial(self._file_system.remove, join(folder.directory, ADDRESS_FILE)),
                    partial(self._file_system.remove_directory, folder.directory),
                )
            self._writer.submit(steps, partial(self._removed, folder.directory))

    def remove_orphans(self, needed: Collection[str], below: int | None) -> None:
        """Remove all pages ``below`` a number (None = all) but those with these paths.  Blocks: for the start."""
        for name in self._file_system.list(self._directory):
            directory = join(self._directory, name)
            for entry in self._file_system.list(directory) if is_folder_name(name) else ():
                path = join(directory, entry)
                number = page_number(entry)
                if number is not None and path not in needed and (below is None or number < below):
                    self._file_system.remove(path)

    def close(self, pages: Iterable[Page]) -> None:
        """Close the files of these pages; a step of the disk writer."""
        for page in (*pages, *self._left):
            page.close_file()

    def _remove_files(self, pages: Iterable[Page]) -> None:
        """Remove what can be removed; raises the error of the last file that cannot."""
        failure: OSError | None = None
        for page in pages:
            try:
                page.close_file()
                self._file_system.remove(page.path)
            except OSError as error:
                failure = error
        if failure is not None:
            raise failure

    def _removed(self, directory: str, error: Exception | None) -> None:
        if error is not None:
            self._log.warn("cannot remove pages that are no longer needed, in {path}: {error}", path=directory, error=error)

    def _make_folder(self, folder: Folder) -> None:
        file_system = self._file_system
        file_system.make_directory(folder.directory)
        name = join(folder.directory, ADDRESS_FILE)
        if not file_system.exists(name):
            file = file_system.open(name)
            try:
                file.write(0, folder.address.encode("utf-8", "surrogatepass") + b"\n")
            finally:
                file.close()
        file_system.sync_directory(self._directory)

    def _create(self, page: Page) -> None:
        page.file = self._file_system.open(page.path)
        page.file.write(0, page.header.encode())


def _write(page: Page, frames: list[tuple[int, list[bytes]]], durable: int) -> None:
    """Joins and sums up in the disk thread: most of that needs nothing of the interpreter."""
    assert page.file is not None
    for offset, parts in frames:
        page.file.write(offset, encode_frame(parts, page.seed, offset, durable))


def _sync(page: Page) -> None:
    assert page.file is not None
    page.file.sync()
