"""Reading the journal of a stopped broker."""
