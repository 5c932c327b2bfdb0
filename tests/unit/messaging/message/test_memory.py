"""Who waits for room, in one address or in all of them together."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.model.address_settings import AddressSettings
from mqbroker.messaging.message.memory import AddressMemory, GlobalMemory
from tests.forms import pure_only


def _counted(account: Any) -> None:
    """How often is it asked whether those who wait can go on?"""
    account.asked += 1
    AddressMemory.release(account)


@pure_only
class WaitingTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.overall = GlobalMemory(max_bytes=10_000)
        settings = AddressSettings(address_full_policy="BLOCK")
        counted = type("Counted", (AddressMemory,), {"asked": 0, "release": _counted})
        self.accounts: list[Any] = [counted(str(number), settings, self.overall) for number in range(5)]
        self.granted: list[int] = []

    def wait(self) -> None:
        for number, account in enumerate(self.accounts):
            account.when_free(lambda number=number: self.granted.append(number))

    def test_each_message_that_goes_while_the_disk_is_full_is_no_reason_to_ask_everybody(self) -> None:
        for account in self.accounts:
            account.add(100)
        self.overall.disk_full = True
        self.wait()
        for _ in range(3):
            self.accounts[0].add(100)
            self.accounts[0].remove(100)
        self.assertEqual(([account.asked for account in self.accounts[1:]], self.granted), ([0] * 4, []))
        self.overall.disk_full = False
        self.overall.release()
        self.assertEqual(self.granted, [0, 1, 2, 3, 4])

    def test_a_store_that_is_overfull_makes_everybody_wait_whatever_the_policy(self) -> None:
        for policy in ("PAGE", "DROP", "FAIL"):
            self.accounts.append(AddressMemory(policy, AddressSettings(address_full_policy=policy), self.overall))
        self.overall.set_store_full(True)
        self.assertEqual({(account.policy, account.full, account.excess) for account in self.accounts}, {("BLOCK", True, 1)})
        self.wait()
        self.accounts[0].add(100)
        self.accounts[0].remove(100)
        self.assertEqual(self.granted, [])
        self.overall.set_store_full(False)
        self.assertEqual(self.granted, list(range(8)))
        self.assertFalse(self.accounts[-1].full)

    def test_room_for_all_together_is_for_everybody_in_their_order(self) -> None:
        self.accounts[0].add(10_000)
        self.wait()
        self.assertEqual(self.granted, [])
        self.accounts[0].remove(10_000)
        self.assertEqual(self.granted, [0, 1, 2, 3, 4])
        self.accounts[0].add(100)
        self.accounts[0].remove(100)
        self.assertEqual([account.asked for account in self.accounts[1:]], [1] * 4)
