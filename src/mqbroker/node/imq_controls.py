"""The management resource of an instance of Open Message Queue.  Imported only by such a broker, with the first request to management."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from mqbroker.imq.administration.broker import ImqBroker, ImqParts

if TYPE_CHECKING:
    from mqbroker.config.imq.instance import ImqInstance
    from mqbroker.node.others import Others
    from mqbroker.node.parts import Parts
    from mqbroker.server.management.registry import Registry
    from mqbroker.server.server import Server

RESOURCE = "imq.broker"


def register_imq(
    registry: Registry,
    server: Server,
    instance: ImqInstance,
    parts: Parts,
    stop: Callable[[], object],
    others: Others,
) -> None:
    """Register the resource; ``stop`` ends this broker in order, ``others`` are its links."""
    needed = ImqParts(
        instance,
        parts.version,
        parts.read_file,
        parts.write_file,
        stop,
        parts.restart,
        lambda: None if others.clustering is None else others.clustering.homes,
    )
    registry.register(RESOURCE, ImqBroker(server, needed))
