"""The management resource ``imq``: what members of a home cluster ask each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mqbroker.server.management.registry import ManagementError, Operation, Resource

RESOURCE = "imq"

PARAMETERS: Mapping[str, int] = {
    "join": 5,
    "changes": 4,
    "append": 5,
    "recordHas": 2,
    "follows": 0,
    "change": 2,
    "reserve": 4,
    "holds": 2,
    "temporary": 2,
    "prepareMaster": 4,
    "newMaster": 4,
    "matchProperties": 0,
    "reload": 0,
    "takeoverPending": 3,
    "takeoverAbort": 2,
    "takeoverComplete": 2,
    "databaseAnswers": 0,
    "hasDataOf": 1,
}
"""The operations by the number of their parameters; ``docs/imq-record.md`` describes them."""

Answers = Mapping[str, Callable[..., Any]]
"""The functions that answer, by operation."""


class MemberOperations(Resource):
    """Answers other members; every operation is for the cluster user alone."""

    FOR_BROKERS = True

    def __init__(self, answers: Answers) -> None:
        self._answers = answers

    def answer(self, operation: str, *parameters: Any) -> Any:
        """Raises ManagementError for parameters that no member sends."""
        try:
            return self._answers[operation](*parameters)
        except (ValueError, TypeError, KeyError) as error:
            raise ManagementError(f"{operation} of {RESOURCE} was asked for wrongly: {error}") from error


def _asked(operation: str) -> Callable[..., Any]:
    return lambda resource, *parameters: resource.answer(operation, *parameters)


MemberOperations.OPERATIONS = {name: Operation(_asked(name), count) for name, count in PARAMETERS.items()}
