from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.model.cluster import SharedStoreConfiguration
from mqbroker.config.model.configuration import Configuration
from mqbroker.node.activation import ActiveAtOnce, make_activation
from tests.support.clock import FakeClock


class Candidate:
    def __init__(self) -> None:
        self.told: list[Any] = []

    def granted(self) -> None:
        self.told.append("granted")

    def lost(self, reason: str) -> None:
        self.told.append(reason)

    def give_way(self, again: bool) -> None:
        self.told.append(again)


def made(policy: SharedStoreConfiguration | None) -> Any:
    return make_activation(Configuration(shared_store=policy), FakeClock(), bytes, None)  # type: ignore[arg-type]


class ActivationTests(SynchronousTestCase):
    def test_a_broker_without_a_policy_is_active_at_once(self) -> None:
        activation, candidate = made(None), Candidate()
        self.assertIsInstance(activation, ActiveAtOnce)
        activation.seek(candidate)
        activation.hand_over()  # to nobody: it is an orderly stop as any other
        self.assertEqual((candidate.told, activation.role, activation.state), (["granted"], "primary", ""))

    def test_a_shared_store_is_waited_for_in_the_role_of_the_configuration(self) -> None:
        for backup, role in ((True, "backup"), (False, "primary")):
            activation = made(SharedStoreConfiguration(backup=backup))
            self.assertEqual((activation.role, activation.state), (role, "idle"))
