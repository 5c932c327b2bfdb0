"""The proof that no other copy of a node is or can become active: without it a replicated broker acknowledges nothing alone (decision 36).

Nothing here knows a network or a reactor: :mod:`mqbroker.ha.proof.ports` says what is asked of those who do.
"""
