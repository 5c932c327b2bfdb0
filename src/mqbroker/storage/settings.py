"""The settings of the file store, in the words of broker.xml."""

from __future__ import annotations

from dataclasses import dataclass

from mqclient.storageformat.frames import SEGMENT_SIZE_MAX

JOURNAL_FILE_SIZE_MIN = 1024


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """Directories are paths as the file system takes them; sizes are bytes."""

    journal_directory: str
    bindings_directory: str
    large_messages_directory: str
    paging_directory: str | None = None
    """None = no pages: messages of full addresses stay in memory."""
    compress_pages: bool = False
    """Messages are compressed before they go to a page."""
    purge_page_folders: bool = False
    """The folder of an address goes when its last page has gone."""
    lock_directory: str | None = None
    """``node-manager-lock-directory``; None = the journal's."""
    create_journal_directory: bool = True
    create_bindings_directory: bool = True
    journal_file_size: int = 10 * 1024 * 1024
    """A segment is left when it has reached this size; one frame may stand beyond it."""
    bindings_file_size: int = 1024 * 1024
    journal_compact_min_files: int = 10
    """Compaction starts with more files than this; 0 = never."""
    journal_compact_percentage: int = 30
    """... and when less than this part of them is live."""
    journal_datasync: bool = True
    """False: what was acknowledged survives the end of the process, not of the machine."""
    large_message_sync: bool = True

    def __post_init__(self) -> None:
        for name in ("journal_file_size", "bindings_file_size"):
            value = getattr(self, name)
            if not JOURNAL_FILE_SIZE_MIN <= value <= SEGMENT_SIZE_MAX:
                raise ValueError(
                    f"{name.replace('_', '-')} is {value}; from {JOURNAL_FILE_SIZE_MIN} to {SEGMENT_SIZE_MAX} bytes are allowed"
                )
        if not 0 <= self.journal_compact_percentage <= 100:
            raise ValueError(f"journal-compact-percentage is {self.journal_compact_percentage}; expected 0 to 100")
        if self.journal_compact_min_files < 0:
            raise ValueError(f"journal-compact-min-files is {self.journal_compact_min_files}; expected 0 or more")

    @property
    def node_directory(self) -> str:
        """The folder of ``server.lock``."""
        return self.lock_directory or self.journal_directory
