"""The registry of managed resources.

A resource lists its attributes in ``ATTRIBUTES`` and its operations in ``OPERATIONS``, by their names on the wire, which are the manual's
(``MessageCount``, ``listQueues``).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from mqbroker.messaging.turns.steps import run_to_end
from mqclient.errors import MQError

if TYPE_CHECKING:
    from mqbroker.server.server import Server


class ManagementError(MQError):
    """A management request that cannot be carried out; the text goes to the caller."""


class Operation:
    """An operation: the function that does it, and how many parameters it takes at least and at most."""

    __slots__ = ("call", "least", "most")

    def __init__(self, call: Callable[..., Any], least: int = 0, most: int | None = None) -> None:
        self.call = call
        self.least = least
        self.most = least if most is None else most


def without_result(call: Callable[[Any], object]) -> Operation:
    """An operation without parameters that is answered with null, at once even where ``call`` returns a Deferred."""

    def begin(resource: Any) -> None:
        call(resource)

    return Operation(begin)


class Resource:
    """A resource that can be managed."""

    ATTRIBUTES: ClassVar[Mapping[str, Callable[[Any], Any]]] = {}
    OPERATIONS: ClassVar[Mapping[str, Operation]] = {}
    FOR_BROKERS: ClassVar[bool] = False
    """Is it for other brokers, which log in as the cluster user, alone?"""


class ServerResource(Resource):
    """A resource about the whole server."""

    def __init__(self, server: Server) -> None:
        self.server = server


class Registry:
    """Finds resources by name: registered resources, or resources that come and go, through finders."""

    def __init__(self) -> None:
        self._resources: dict[str, Resource] = {}
        self._finders: dict[str, Callable[[str], Resource | None]] = {}

    def register(self, name: str, resource: Resource) -> None:
        """Make a resource known; upper layers register theirs too."""
        self._resources[name] = resource

    def unregister(self, name: str) -> None:
        self._resources.pop(name, None)

    def find_by(self, prefix: str, finder: Callable[[str], Resource | None]) -> None:
        """Ask ``finder`` for resources whose name begins with ``prefix`` and a dot; it gets the rest of the name."""
        self._finders[prefix] = finder

    def find(self, name: str) -> Resource | None:
        resource = self._resources.get(name)
        if resource is not None:
            return resource
        prefix, _, rest = name.partition(".")
        finder = self._finders.get(prefix)
        return finder(rest) if finder is not None and rest else None

    def attribute(self, resource_name: str, attribute: str) -> Any:
        """The value of an attribute.  Raises ManagementError."""
        resource = self.find(resource_name)
        getter = None
        if resource is not None and attribute:
            name = attribute[0].upper() + attribute[1:]
            getter = resource.ATTRIBUTES.get(name) or resource.ATTRIBUTES.get(re.sub(r"^(Get|Is)(?=[A-Z])", "", name))
        if getter is None:
            raise ManagementError(f"Problem while retrieving attribute {attribute}")
        return getter(resource)

    def invoke(self, resource_name: str, operation: str, parameters: Sequence[Any]) -> Any:
        """Call an operation (or read an attribute by its getter).  Raises ManagementError and the errors of the operation."""
        result = self.begin(resource_name, operation, parameters)
        return run_to_end(result) if isinstance(result, Generator) else result

    def begin(self, resource_name: str, operation: str, parameters: Sequence[Any]) -> Any:
        """As :meth:`invoke`, but an operation that may take long is only begun: the result is its :data:`.steps.Steps`."""
        resource = self.find(resource_name)
        if resource is None:
            raise ManagementError(f"AMQ229067: Cannot find resource with name {resource_name}")
        found = resource.OPERATIONS.get(operation)
        if found is None:
            getter = re.fullmatch(r"(?:get|is)([A-Z]\w*)", operation)
            if getter is not None and not parameters and getter[1] in resource.ATTRIBUTES:
                return resource.ATTRIBUTES[getter[1]](resource)
            raise ManagementError(f"AMQ229069: no operation {operation}/{len(parameters)}")
        if not found.least <= len(parameters) <= found.most:
            raise ManagementError(f"AMQ229069: no operation {operation}/{len(parameters)}")
        return found.call(resource, *parameters)


def as_bool(value: Any) -> bool:
    """A boolean parameter, which may come as text."""
    return value if isinstance(value, bool) else str(value).lower() == "true"


def as_int(value: Any) -> int:
    """A whole number parameter, which may come as text.  Raises ManagementError."""
    try:
        return int(value)
    except (TypeError, ValueError) as error:
        raise ManagementError(f"{value!r} is not a whole number") from error


def as_text(value: Any) -> str:
    """A text parameter; null is the empty text."""
    return "" if value is None else str(value)


def as_object(value: Any, subject: str) -> dict[str, Any]:
    """A parameter that is a JSON object, or the text of one.  Raises ManagementError, whose sentence begins with ``subject``."""
    try:
        found = value if isinstance(value, dict) else json.loads(as_text(value))
    except (ValueError, RecursionError) as error:
        raise ManagementError(f"{subject} not JSON: {error}") from error
    if not isinstance(found, dict):
        raise ManagementError(f"{subject} not a JSON object")
    return found
