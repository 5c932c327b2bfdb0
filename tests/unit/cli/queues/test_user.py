"""``mqbroker user``, against management that is played."""

from __future__ import annotations

from tests.unit.cli.queues.test_queue import QueueCase
from tests.unit.cli.runner import FakeManagement


class UserTests(QueueCase):
    def test_users(self) -> None:
        broker = FakeManagement(listUser='[{"username":"bob","roles":["amq","x"]}]')
        result = self.run_with(broker, "user", "list")
        self.assertEqual(result.out, '--- "user"(roles) ---\n"bob"(amq,x)\n\n Total: 1\n')
        self.assertEqual(self.run_with(broker, "user", "list", "--role", "amq").out, result.out)
        self.run_with(broker, "user", "add", "--user-command-user", "eve", "--user-command-password", "p", "--role", "amq")
        self.assertEqual(broker.asked[-1], ("broker", "addUser", "eve", "p", "amq", False))
