"""The change record: definitions that a cluster of home brokers has in common, as a list of changes.  Pure: nothing here stores or sends."""
