"""Work of operators and of housekeeping: create, change, remove, pause, expire, select, guard the disk."""
