"""Permissions: who may do what on which address."""

from __future__ import annotations

import json

from mqbroker.config.model.configuration import Configuration
from mqbroker.server.security.permissions import SessionPermissions
from mqbroker.server.security.security import Subject
from mqclient.errors import SecurityError
from tests.unit.server.security.test_security import VECTORS, SecurityTestCase


class PermissionTests(SecurityTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.configuration = Configuration(
            security_settings={
                "#": {"send": frozenset({"amq"}), "consume": frozenset({"amq"}), "createAddress": frozenset({"amq"})},
                "orders.#": {"send": frozenset({"sales", "amq"})},
                "orders.eu::audit": {"consume": frozenset({"auditor"})},
            }
        )

    def test_only_the_most_specific_match(self) -> None:
        manager = self.manager(self.configuration)
        amq, sales = Subject("a", frozenset({"amq"})), Subject("s", frozenset({"sales", "x"}))
        manager.check(amq, "consume", "other")
        manager.check(sales, "send", "orders.eu")
        manager.check(sales, "send", "orders.eu", "anything")
        for subject, permission, address, queue in (
            (amq, "consume", "orders.eu", None),
            (sales, "send", "other", None),
            (amq, "consume", "orders.eu", "audit"),
            (Subject(None), "send", "other", None),
            (amq, "nonsense", "other", None),
        ):
            with self.assertRaises(SecurityError):
                manager.check(subject, permission, address, queue)
        manager.check(Subject("x", frozenset({"auditor"})), "consume", "orders.eu", "audit")
        self.assertEqual((manager.authorization_successes, manager.authorization_failures), (4, 5))
        self.assertEqual(manager.repository.lookup("orders.x"), {"send": frozenset({"sales", "amq"})})

    def test_denials_read_like_the_recorded_ones(self) -> None:
        manager = self.manager()
        found: list[str] = []
        for permission, address, queue in (
            ("createAddress", "denied.q", None),
            ("consume", "ExpiryQueue", "ExpiryQueue"),
            ("send", "ExpiryQueue", None),
        ):
            with self.assertRaises(SecurityError) as caught:
                manager.check(Subject("nobody"), permission, address, queue)
            found.append(str(caught.exception))
        recorded = [
            (VECTORS / name / "permission-denied.json").read_text(encoding="utf-8") for name in ("jms-2.44.0", "jms-2.19.1", "jms-2.6.4")
        ]
        for text in recorded:
            frames = [frame["hex"] for connection in json.loads(text)["connections"] for frame in connection["frames"]]
            for message in found:
                self.assertTrue(any(message.encode().hex() in frame for frame in frames), message)
        with self.assertRaises(SecurityError) as caught:
            manager.check(Subject(None), "deleteNonDurableQueue", "a", "q")
        self.assertEqual(
            str(caught.exception), "AMQ229213: User: null does not have permission='DELETE_NON_DURABLE_QUEUE' for queue q on address a"
        )

    def test_changed_settings_count_at_once(self) -> None:
        manager = self.manager(self.configuration)
        version = manager.version
        amq = Subject("a", frozenset({"amq"}))
        manager.check(amq, "send", "news")
        manager.repository.set("news", {"send": frozenset({"editor"})})
        self.assertNotEqual(manager.version, version)
        with self.assertRaises(SecurityError):
            manager.check(amq, "send", "news")
        manager.repository.remove("news")
        manager.check(amq, "send", "news")

    def test_a_session_remembers_a_permission_until_the_settings_change(self) -> None:
        manager = self.manager(self.configuration)
        permissions = SessionPermissions(manager, Subject("a", frozenset({"amq"})))
        self.assertFalse(permissions.knows("send", "news"))
        permissions.check("send", "news")
        self.assertTrue(permissions.knows("send", "news"))
        manager.repository.set("news", {"send": frozenset({"editor"})})
        self.assertFalse(permissions.knows("send", "news"))
        with self.assertRaises(SecurityError):
            permissions.check("send", "news")

    def test_cache_sizes(self) -> None:
        for size in (0, 1, 2, 1000):
            self.configuration.authorization_cache_size = size
            manager = self.manager(self.configuration)
            for _ in range(2):
                for number in range(5):
                    self.assertTrue(manager.allows(frozenset({"amq"}), "send", f"a{number}"))
                    self.assertFalse(manager.allows(frozenset({"x"}), "send", f"a{number}"))
            self.assertLessEqual(manager.authorization_cache_size, size)
            manager.forget_permissions()
            self.assertEqual(manager.authorization_cache_size, 0)
            self.assertTrue(manager.allows(frozenset({"amq"}), "send", "a1"))

    def test_denials_are_told(self) -> None:
        told: list[tuple[str, str, str | None]] = []
        manager = self.manager()
        manager.denied.subscribe(lambda *denied: told.append(denied))
        for _ in range(2):
            with self.assertRaises(SecurityError):
                manager.check(Subject("u"), "createDurableQueue", "a", "q")
        self.assertEqual(told, [("a", "CREATE_DURABLE_QUEUE", "u")] * 2)
