"""The security manager of a broker: users of files, and those that the broker keeps itself."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.instance.broker_settings import BrokerSettings
from mqbroker.config.instance.jaas import LoginModule
from mqbroker.config.model.configuration import Configuration
from mqbroker.messaging.ports import Recovered
from mqbroker.node.parts import StartError
from mqbroker.node.security import KEPT_USER_KIND, security_of
from mqbroker.server.security.audit import AuditLog
from tests.support.clock import FakeClock
from tests.support.disk import SimulatedDisk
from tests.support.held_store import HeldStore
from tests.support.parts import make_parts

BOOTSTRAP = {"bootstrapUser": "alice", "bootstrapPassword": "pw", "bootstrapRole": "amq"}


class SecurityTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.store: Any = HeldStore()

    def made(self, recovered: Recovered | None = None, **settings: Any) -> Any:
        parts = make_parts(FakeClock(), SimulatedDisk(Random(1)))
        broker = BrokerSettings(Configuration(), Path("/"), **settings)
        return security_of(broker, recovered or Recovered(), self.store, parts, AuditLog())

    def kept(self) -> list[tuple[Any, ...]]:
        return [entry[1:3] for entry in self.store.entries("setting")]

    def test_the_first_user_of_basic_security_is_kept(self) -> None:
        self.made(basic_security=BOOTSTRAP)
        self.assertEqual(self.kept(), [(KEPT_USER_KIND, "alice")])

    def test_a_user_that_was_kept_is_not_made_again(self) -> None:
        self.made(basic_security=BOOTSTRAP)
        ((_, _, _, record),) = self.store.entries("setting")
        self.store.log.clear()
        recovered = Recovered()
        recovered.settings[KEPT_USER_KIND, "alice"] = record
        self.made(recovered, basic_security=BOOTSTRAP)
        self.assertEqual(self.kept(), [])

    def test_without_a_first_user_there_are_only_those_that_were_kept(self) -> None:
        self.made(basic_security={})
        self.assertEqual(self.kept(), [])

    def test_a_login_module_that_there_is_not_stops_the_start(self) -> None:
        modules = [LoginModule("NoSuchModule", "required", {})]
        self.assertIn("NoSuchModule", str(self.assertRaises(StartError, self.made, login=modules)))
