"""Who waits for room, in one address or in all of them together."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.address_settings import AddressSettings
from mqbroker.messaging.memory import AddressMemory, GlobalMemory


class Counted(AddressMemory):
    """Counts how often it is asked whether those who wait can go on."""

    __slots__ = ("asked",)

    def __init__(self, name: str, overall: GlobalMemory) -> None:
        super().__init__(name, AddressSettings(address_full_policy="BLOCK"), overall)
        self.asked = 0

    def release(self) -> None:
        self.asked += 1
        super().release()


class WaitingTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.overall = GlobalMemory(max_bytes=10_000)
        self.accounts = [Counted(str(number), self.overall) for number in range(5)]
        self.granted: list[int] = []

    def wait(self) -> None:
        for number, account in enumerate(self.accounts):
            account.when_free(lambda number=number: self.granted.append(number))  # type: ignore[misc]

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

    def test_room_for_all_together_is_for_everybody_in_their_order(self) -> None:
        self.accounts[0].add(10_000)
        self.wait()
        self.assertEqual(self.granted, [])
        self.accounts[0].remove(10_000)
        self.assertEqual(self.granted, [0, 1, 2, 3, 4])
        self.accounts[0].add(100)
        self.accounts[0].remove(100)
        self.assertEqual([account.asked for account in self.accounts[1:]], [1] * 4)
