"""Finding out whether a commit has happened whose answer was lost.

A commit leaves its id with the broker.  The client claims that id in a transaction of its own, together with a fresh one, the name of the
claim.  A claim that the broker takes proves that nobody had taken the id before; from then on the broker refuses the commit, however late
it comes.  A claim that the broker refuses proves that the id is taken: by the commit, or by an earlier claim whose answer was lost as well.
An earlier claim is looked up by its name in the same way.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

Claim = Callable[[Sequence[str]], Awaitable[bool | None]]
"""Take all of these ids or none: True when they were taken, False when one was known before, None when the outcome is unknown.

The next call must not begin before the effect of the last one is settled.
"""


async def has_happened(claim: Claim, commit_id: str, new_id: Callable[[], str]) -> bool:
    """Has the transaction with that id taken effect?  After False it never will."""
    unknown: list[str] = []
    while True:
        name = new_id()
        taken = await claim((commit_id, name))
        if taken:
            return False
        if taken is None:
            unknown.append(name)
            continue
        for earlier in unknown:
            if await has_happened(claim, earlier, new_id):
                return False
        return True
