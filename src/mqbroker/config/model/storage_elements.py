"""The plain elements of ``core`` about storage and limits."""

from __future__ import annotations

from mqbroker.config.schema import values as kinds
from mqbroker.config.schema.model import Block, Item, Support, flag, honoured, quiet, warned

NO_POOL = "the journal makes files when it needs them, and removes them"
OWN_JOURNAL = "the journal has its own format and writes in its own way"
OWN_PAGING = "pages are written with the journal, and read in pieces of 64 KiB"

STORAGE: tuple[Item, ...] = (
    flag("persistence-enabled", "false: nothing is written, and nothing survives a restart."),
    honoured("bindings-directory", kinds.FILLED_TEXT, "Folder of addresses and queues; a relative path starts at the instance folder."),
    flag("create-bindings-dir", "Make that folder when it is missing."),
    honoured("journal-directory", kinds.FILLED_TEXT, "Folder of the messages."),
    flag("create-journal-dir", "Make that folder when it is missing."),
    honoured("paging-directory", kinds.FILLED_TEXT, "Folder of the pages."),
    honoured("large-messages-directory", kinds.FILLED_TEXT, "Folder of the bodies of large messages."),
    honoured("node-manager-lock-directory", kinds.FILLED_TEXT, "Folder of server.lock; the journal's unless set."),
    quiet("journal-type", kinds.choice("ASYNCIO", "NIO", "MAPPED"), "How the journal writes.", OWN_JOURNAL),
    flag("journal-datasync", "false: messages survive a crash of the broker, but not of the machine."),
    honoured("journal-sync-transactional", kinds.BOOLEAN, "Commits wait for the disk."),
    honoured("journal-sync-non-transactional", kinds.BOOLEAN, "Durable sends and acknowledgements do."),
    honoured("large-message-sync", kinds.BOOLEAN, "The end of a large message does."),
    honoured("journal-file-size", kinds.POSITIVE_BYTES, "Size of one journal file, bytes."),
    quiet("journal-min-files", kinds.integer(2, kinds.INT_MAX), "Journal files made in advance.", NO_POOL),
    quiet("journal-pool-files", kinds.integer(0, kinds.INT_MAX, -1), "Journal files kept for reuse.", NO_POOL),
    honoured("journal-compact-min-files", kinds.integer(0, kinds.INT_MAX), "Journal files from which on it is compacted; 0 never."),
    honoured("journal-compact-percentage", kinds.PERCENT, "Percent of live records below which it is compacted; 0 never."),
    quiet(
        "journal-buffer-size",
        kinds.POSITIVE_BYTES,
        "Size of the write buffer, bytes.",
        OWN_JOURNAL,
        beans=("journalBufferSizeAIO", "journalBufferSizeNIO"),
    ),
    quiet(
        "journal-buffer-timeout",
        kinds.NOT_NEGATIVE,
        "When the buffer is written, ns.",
        OWN_JOURNAL,
        beans=("journalBufferTimeoutAIO", "journalBufferTimeoutNIO"),
    ),
    quiet(
        "journal-max-io", kinds.integer(1, kinds.INT_MAX), "Writes under way.", OWN_JOURNAL, beans=("journalMaxIoAIO", "journalMaxIoNIO")
    ),
    quiet("journal-device-block-size", kinds.LONG, "Alignment, bytes.", OWN_JOURNAL),
    quiet("journal-file-open-timeout", kinds.INT, "How long opening a file may take, s.", OWN_JOURNAL),
    honoured(
        "journal-lock-acquisition-timeout",
        kinds.LONG,
        "How long a broker with a shared store waits for it, ms; -1 no limit. Without a shared store nobody waits: the start is refused.",
    ),
    warned("log-journal-write-rate", kinds.BOOLEAN, "Write the journal's speed to the log.", "read the metrics instead"),
    quiet("page-sync-timeout", kinds.NOT_NEGATIVE, "When pages are written, ns.", OWN_PAGING),
    quiet("page-max-concurrent-io", kinds.POSITIVE_INT_OR_NONE, "Reads of pages under way.", OWN_PAGING),
    quiet("read-whole-page", kinds.BOOLEAN, "Read a page in one go.", OWN_PAGING),
    flag("purge-page-folders", "Remove the folder of an address that stops paging."),
    honoured(
        "mqbroker-compress-pages",
        kinds.BOOLEAN,
        "Pack the messages in pages with lz4. An element of mqbroker's own: Artemis refuses a file that has it.",
        field="compress_pages",
    ),
)

LIMITS: tuple[Item, ...] = (
    honoured(
        "global-max-size", kinds.BYTES_OR_NONE, "Bytes of messages in memory, over all addresses; -1: chosen from the memory there is."
    ),
    warned(
        "global-max-size-percent-of-jvm-max-memory",
        kinds.PERCENT,
        "The same as a part of the Java heap.",
        "there is no Java heap; write global-max-size",
        (),
    ),
    honoured("global-max-messages", kinds.LONG_OR_NONE, "Messages in memory, over all addresses; -1 no limit."),
    honoured("max-disk-usage", kinds.PERCENT_OR_NONE, "Percent of the disk in use at which producers are stopped; -1 off."),
    honoured("min-disk-free", kinds.BYTES_OR_NONE, "Free bytes on the disk below which they are stopped; replaces max-disk-usage."),
    honoured("disk-scan-period", kinds.POSITIVE, "How often the disk is looked at, ms."),
)

RETENTION = Block(
    "journal-retention-directory",
    "Folder of copies of everything that the journal held.",
    support=Support.REFUSED,
    reason="nothing keeps copies of the journal: what is acknowledged is gone and could not be replayed",
    text=kinds.TEXT,
    inside=("@period", "@unit", "@storage-limit"),
)
