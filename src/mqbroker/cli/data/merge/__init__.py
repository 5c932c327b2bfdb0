"""``mqbroker data merge``: what only a journal knows that was kept after a split goes to the broker that went on.

The kept journal and the present one are read as files, and a running broker is sent to as by any client.  No other room uses this one.
"""
