"""Automat machines as tests look at them."""

from __future__ import annotations

from typing import Any


def state_of(machine: Any) -> str:
    """The name of the state of a machine that has no input to ask for it."""
    return str(machine.__automat_transitioner__._state.name)
