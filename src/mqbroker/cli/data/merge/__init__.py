"""``mqbroker data merge``: what only a journal knows that was kept after a split goes to the broker that went on."""
