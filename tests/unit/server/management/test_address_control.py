"""What the control of an address tells."""

from __future__ import annotations

from tests.unit.server.management.test_queue_control import QueueControlCase


class AddressTests(QueueControlCase):
    def test_bindings_of_an_address(self) -> None:
        self.call("broker", "createDivert", "d", "d", "q", "elsewhere", False, None, None)
        self.assertEqual(self.attribute("address.q", "BindingNames"), ["q", "d"])
