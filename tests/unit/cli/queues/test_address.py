"""``mqbroker address``, against management that is played."""

from __future__ import annotations

from tests.unit.cli.queues.test_queue import QueueCase
from tests.unit.cli.runner import FakeManagement


class AddressTests(QueueCase):
    def test_addresses(self) -> None:
        broker = FakeManagement(listAddresses=f"a\n{FakeManagement.reply_queue}\nb", createAddress="Address [name=c]")
        self.assertEqual(self.run_with(broker, "address", "show").out, "a\nb\n")
        self.assertEqual(self.run_with(broker, "address", "show", "--anycast").out, "a\nb\n")
        result = self.run_with(broker, "address", "create", "--name", "c", "--anycast", "--multicast")
        self.assertEqual(result.out, "Address [name=c] created successfully.\n")
        self.assertEqual(broker.asked[-1], ("broker", "createAddress", "c", "ANYCAST,MULTICAST"))
        self.assertEqual(self.run_with(broker, "address", "update", "--name", "c").status, 2)
