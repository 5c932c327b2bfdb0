"""One turn of the event loop: the batch of the store that a turn gathers, and long work that is done in steps over many turns."""
