"""The change record: the definitions that a cluster of home brokers shares, as a list of changes.  Nothing here stores or sends."""
