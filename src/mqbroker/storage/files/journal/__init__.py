"""The journal of the file store: segments, their live records, compaction, maintenance."""
