"""Work of operators and of housekeeping: create, change, remove, divert, pause, expire, select, guard the disk."""
