"""Errors of the evaluation of filters, in a module of their own because the grammar is imported only where there is a filter."""

from __future__ import annotations


class FilterEvaluationError(Exception):
    """The filter has no result for this message, for example because a byte string was compared by order: no match."""
