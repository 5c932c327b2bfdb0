"""The disk as a port: file systems, the disk writer, the lock of the data folder.  The lowest room: journal and pages do not come in."""
