"""Events: who wants to hear of something subscribes, and can unsubscribe."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Generic, TypeVarTuple

Told = TypeVarTuple("Told")


class Event(Generic[*Told]):
    """Something that happens to the object whose attribute this is.  That object calls the event, with what listeners are told.

    ``listeners`` are called in the order in which they have subscribed.  Where a call per message counts they may be gone through
    directly; nobody changes them there.
    """

    __slots__ = ("listeners",)

    def __init__(self) -> None:
        self.listeners: list[Callable[[*Told], object]] = []

    def subscribe(self, listener: Callable[[*Told], object]) -> Callable[[], None]:
        """Call ``listener`` from now on.  Returns the function that ends this; it is to be called once."""
        self.listeners.append(listener)
        return partial(self.listeners.remove, listener)

    def __call__(self, *told: *Told) -> None:
        """Tell everybody who listens now, also when some unsubscribe on the way.  The first who raises ends it."""
        for listener in list(self.listeners):
            listener(*told)
