"""State machines that find their transitions in a table.

Automat goes through all transitions of a machine for each input, and the checks ask each broker for its state after each event.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from unittest import mock

from automat._core import Automaton


@contextmanager
def indexed() -> Iterator[None]:
    """While this lasts each transition is looked for once."""
    with mock.patch.object(Automaton, "outputForInput", cache(Automaton.outputForInput)):
        yield
