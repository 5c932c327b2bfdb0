"""The process and its machine: threads, clocks, local files, memory, descriptors.  Nothing here knows a message."""
