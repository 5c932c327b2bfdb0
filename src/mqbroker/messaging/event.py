"""Events, with listeners that subscribe and can unsubscribe."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Generic, TypeVarTuple

Told = TypeVarTuple("Told")


class Event(Generic[*Told]):
    """An event of the object that has it as an attribute.  That object calls the event with the arguments for the listeners.

    ``listeners`` are called in the order in which they have subscribed.  Code that runs for each message may loop over ``listeners``
    directly, without changing them.
    """

    __slots__ = ("listeners",)

    def __init__(self) -> None:
        self.listeners: list[Callable[[*Told], object]] = []

    def subscribe(self, listener: Callable[[*Told], object]) -> Callable[[], None]:
        """Call ``listener`` from now on.  Returns the function that ends this; it is to be called once."""
        self.listeners.append(listener)
        return partial(self.listeners.remove, listener)

    def __call__(self, *told: *Told) -> None:
        """Call all present listeners, also those that unsubscribe on the way.  The first listener that raises ends the loop."""
        for listener in list(self.listeners):
            listener(*told)
