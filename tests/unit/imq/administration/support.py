"""An instance of Open Message Queue on parts in memory, and requests to its management."""

from __future__ import annotations

import json
from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.imq.administration.broker import ImqBroker, ImqParts
from mqbroker.imq.enhanced.membership import Membership
from mqbroker.messaging.queues.queue import Queue
from mqbroker.server.management.registry import ManagementError
from tests.support.broker import World
from tests.support.registrar import SlowRegistrar
from tests.unit.config.imq.support import PROPERTIES, Files, Made

RESOURCE = "imq.broker"


class Actions:
    """What needs other members; each call waits until the test completes ``waiting``."""

    def __init__(self) -> None:
        self.master: str | None = None
        self.membership: Membership | None = None
        self.brokers = ["here:7676", "B:7676"]
        self.calls: list[str] = []
        self.waiting: Deferred[None] = Deferred()

    def held(self, queue: Queue) -> int:
        return 4 if queue.name == "orders" else 0

    def reload(self) -> Deferred[None]:
        self.calls.append("reload")
        return self.waiting

    def change_master(self, place: str) -> Deferred[None]:
        self.calls.append(f"change to {place}")
        return self.waiting


class ImqCase(SynchronousTestCase):
    """``world`` is an instance with the properties ``text``."""

    text = ""
    with_actions = True

    def setUp(self) -> None:
        made = Made(self.text)
        assert made.instance is not None, made.errors
        made.configuration.cluster_connections = []  # nothing here opens links
        made.configuration.security_enabled = False
        self.files = Files({PROPERTIES: self.text})
        self.registrar = SlowRegistrar()
        self.world = World(made.configuration, registrar=self.registrar)
        self.actions = Actions()
        self.stops: list[str] = []
        parts = ImqParts(
            made.instance,
            "1.0",
            self.files.read,
            lambda path, data: self.files.files.update({path: data.decode()}),
            lambda: self.stops.append("stop"),
            lambda: self.stops.append("restart"),
            lambda: self.actions if self.with_actions else None,
        )
        self.resource = ImqBroker(self.world.server, parts)
        self.world.registry.register(RESOURCE, self.resource)
        self.registrar.agreed.clear()

    def ask(self, operation: str, *parameters: Any) -> Any:
        """The result of an operation, read as JSON where it is a text."""
        found = self.world.registry.invoke(RESOURCE, operation, parameters)
        return json.loads(found) if isinstance(found, str) else found

    def refused(self, operation: str, *parameters: Any) -> str:
        return str(self.assertRaises(ManagementError, self.ask, operation, *parameters))

    def agreed(self) -> list[tuple[str, str]]:
        """The changes that the registrar has agreed to."""
        return [(each.action, each.definition.name) for each in self.registrar.agreed]
