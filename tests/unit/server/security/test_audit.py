"""The audit log."""

from __future__ import annotations

from mqbroker.server.security.security import REPORT_INTERVAL_SECONDS, REPORTED_LINES_MAX, REPORTED_MAX, Subject
from mqclient.errors import SecurityError
from tests.unit.server.security.test_security import REMOTE, SecurityTestCase


class AuditTests(SecurityTestCase):
    def test_logins_and_denials_without_secrets(self) -> None:
        manager = self.manager()
        subject = self.accepted(manager.authenticate("admin", "adminadmin", REMOTE))
        self.refused(manager.authenticate("admin\nforged line", "hunter2", REMOTE))
        with self.assertRaises(SecurityError):
            manager.check(subject, "send", "a\nb", None)
        lines = self.audit()
        self.assertEqual(len(lines), 3)
        self.assertIn("'admin'", lines[0])
        self.assertIn(REMOTE, lines[0])
        self.assertIn("accepted", lines[0])
        self.assertIn("amq", lines[0])
        self.assertIn("refused, wrong", lines[1])
        self.assertIn("SEND", lines[2])
        self.assertIn("denied", lines[2])
        self.assertNotIn("\n", "".join(lines))
        self.assertNotIn("adminadmin", repr(self.events))
        self.assertNotIn("hunter2", repr(self.events))

    def test_who_has_no_name_is_anonymous(self) -> None:
        manager = self.manager()
        self.refused(manager.authenticate(None, None, REMOTE))
        with self.assertRaises(SecurityError):
            manager.check(Subject(None), "send", "a", None)
        refused, denied = self.audit()
        self.assertIn("login of 'anonymous' from", refused)
        self.assertIn("SEND of 'anonymous' on address 'a': denied", denied)
        self.assertNotIn("None", refused + denied)

    def test_a_loop_of_refusals_fills_no_log(self) -> None:
        manager = self.manager()
        for number in range(100):
            self.refused(manager.authenticate("admin", f"guess{number}", f"127.0.0.1:{number}"))
            self.refused(manager.authenticate("admin", "same", f"127.0.0.2:{number}"))
        self.assertEqual(len(self.audit()), 2)
        self.clock.seconds += REPORT_INTERVAL_SECONDS
        self.refused(manager.authenticate("admin", "again", "127.0.0.1:1"))
        self.assertIn("(99 more since the last such line)", self.audit()[-1])

    def test_what_is_remembered_is_bounded(self) -> None:
        manager = self.manager()
        for number in range(REPORTED_MAX + 1):
            with self.assertRaises(SecurityError):
                manager.check(Subject("u"), "send", f"a{number}", None)
        self.assertEqual(len(self.audit()), REPORTED_LINES_MAX)
        self.clock.seconds += REPORT_INTERVAL_SECONDS
        with self.assertRaises(SecurityError):
            manager.check(Subject("u"), "send", "other", None)
        self.assertIn(f"({REPORTED_MAX + 1 - REPORTED_LINES_MAX} more since the last such line)", self.audit()[-1])
