"""The records of a broker's journal and pages, and the rules by which they survive.  Bytes in, records out: no files, no queues."""
