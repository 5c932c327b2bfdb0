"""Addresses whose settings decide what becomes of a message: what expires when, what nobody takes, what appears and goes by itself.

``perishables`` gives its messages expirations, and makes queues for expired and for dead ones by itself; ``sorted`` has one queue, for red
messages, and sends others to where dead letters go; ``auto.parcels`` and its queue are made by whoever sends there, and go when they are
not used.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Any

from tests.simulation.diverting import AUDIT, GOODS, queues_for

DIVERT = "auditing"
"""The divert that clusters may have."""
DEAD_LETTERS, EXPIRED = "dead.letters", "expired"
ARCHIVE = "archive"
"""The address and the queue that have readers, and no consumers before the end."""
PERISHABLES, SORTED, PARCELS = "perishables", "sorted", "auto.parcels"
SORTED_QUEUE = "sorted.red"
RETURNS = "returns"
"""The address and queue whose messages are rolled back often."""
FLEETING = "fleeting"
"""The address and queue whose receivers have the broker acknowledge before it sends."""
OWN_QUEUES = ("EXP.perishables", "DLQ.perishables", PARCELS)
"""Queues that are made when they are needed, and go when nobody needs them."""

AT_ONCE, LATER = "at once", "later"
"""When a message may be dropped although its send was confirmed: when it comes, or also when it was received."""

EXPIRATIONS: tuple[dict[str, Any], ...] = (
    {"no_expiry": True},
    {"expiry_delay": 600},
    {"min_expiry_delay": 400, "max_expiry_delay": 1500},
    {"min_expiry_delay": 900},
    {"max_expiry_delay": 800},
)
ID_CACHE = 20_000
FULL_POLICIES = ("BLOCK", "PAGE", "PAGE", "FAIL", "DROP")


@dataclass(frozen=True, slots=True)
class Plan:
    """Settings in which the brokers of different runs differ; ``full_policy`` holds for the address stock, which takes little."""

    full_policy: str
    stock_bytes: int
    redelivery_delay: int
    count_before_delivery: bool
    paging: int
    """How many bytes the addresses jobs and news take before they page; -1: as many as come."""
    expirations: dict[str, Any]
    resources: str
    """Where goes what expires or is refused on perishables?  To queues made for it ("own"), to those of all ("shared"), to none ("")."""
    page_limit: int | None
    """Messages in the pages of stock."""
    page_full_policy: str
    disk_full_policy: str
    """For stock; all other addresses block."""
    compress_pages: bool
    purge_page_folders: bool
    attempts: int
    """How often a message of returns is tried."""
    page_bytes: int = 1500
    """The size of a page of stock and jobs."""
    journal_bytes: int = 4 * 1024
    """The size of a segment of the journal: small, so that a short run begins many and compacts them."""
    id_cache: int = ID_CACHE
    """How many duplicate ids an address remembers."""

    once: bool = False
    """Do clients with exactlyOnce work here, who need that more ids are remembered than come?"""
    graceful_ms: int = -1
    """How long an orderly stop waits for clients to leave by themselves; -1: it does not."""

    @staticmethod
    def draw(rng: random.Random) -> Plan:
        return Plan(
            rng.choice(FULL_POLICIES),
            rng.choice((2000, 6000)),
            rng.choice((0, 0, 200)),
            rng.random() < 0.2,
            rng.choice((-1, 0, 0, 1500, 3000)),
            rng.choice(EXPIRATIONS),
            rng.choice(("own", "own", "shared", "")),
            rng.choice((None, None, 4)),
            rng.choice(("FAIL", "DROP")),
            rng.choice(("BLOCK", "BLOCK", "FAIL", "DROP")),
            rng.random() < 0.3,
            rng.random() < 0.3,
            rng.choice((2, 3, 5)),
        )

    def later(self, rng: random.Random) -> Plan:
        """What the broker may be told when it is started again: nothing on which the judgement of earlier lives depends."""
        if rng.random() < 0.5:
            return self
        return replace(
            self,
            stock_bytes=rng.choice((2000, 6000)),
            count_before_delivery=rng.random() < 0.2,
            paging=self.paging if self.paging < 0 else rng.choice((0, 1500, 3000)),
            compress_pages=rng.random() < 0.3,
            purge_page_folders=rng.random() < 0.3,
            attempts=rng.choice((2, 3, 5)),
            page_bytes=rng.choice((1000, 1500, 4000)),
            journal_bytes=rng.choice((4 * 1024, 8 * 1024)),
            id_cache=rng.choice((ID_CACHE, 10, 16) if not self.once else (ID_CACHE,) * 3),
            graceful_ms=rng.choice((-1, 0, 300)),
        )

    def pages(self, address: str) -> bool:
        """May messages of the address go to pages?"""
        return self.full_policy == "PAGE" if address == "stock" else self.paging >= 0 and address in ("jobs", "news", ARCHIVE, AUDIT)

    def may_block(self, address: str) -> bool:
        """May a sender have to wait for receivers?"""
        return address == "stock" and self.full_policy == "BLOCK"

    def drops(self, address: str) -> str:
        """When may a message to the address be dropped?  "" = never."""
        if address == FLEETING:
            return LATER
        if address == PERISHABLES:
            return "" if self.resources else LATER
        limited = self.full_policy == "PAGE" and self.page_limit is not None and self.page_full_policy == "DROP"
        return AT_ONCE if address == "stock" and (limited or "DROP" in (self.full_policy, self.disk_full_policy)) else ""

    def settings(self) -> dict[str, dict[str, Any]]:
        own = self.resources == "own"
        return {
            PERISHABLES: {
                **self.expirations,
                "max_delivery_attempts": 2,
                "expiry_address": "spoiled" if own else EXPIRED if self.resources else "nowhere",
                "dead_letter_address": "refused" if own else DEAD_LETTERS if self.resources else None,
                "auto_create_expiry_resources": own,
                "auto_create_dead_letter_resources": own,
            },
            RETURNS: {"max_delivery_attempts": self.attempts, "dead_letter_address": DEAD_LETTERS},
            SORTED: {"send_to_dla_on_no_route": True, "dead_letter_address": DEAD_LETTERS},
            "stock": {
                "address_full_policy": self.full_policy,
                "max_size_bytes": self.stock_bytes,
                "page_size_bytes": self.page_bytes,
                "page_limit_messages": self.page_limit,
                "page_full_policy": self.page_full_policy,
                "disk_full_policy": self.disk_full_policy,
            },
        }

    def wrong_expiration(self, expiration: int) -> bool:
        """Can a message of perishables not have this expiration?"""
        if "no_expiry" in self.expirations:
            return expiration != 0
        return expiration == 0


def queues_of(address: str, queues: tuple[str, ...], color: str) -> tuple[str, ...]:
    """The queues that a message gets; ``queues`` are those of the address."""
    if address == GOODS:
        return queues_for(color)
    return (DEAD_LETTERS,) if address == SORTED and color != "red" else queues
