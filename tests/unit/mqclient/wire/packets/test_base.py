"""What all packets have in common."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mqclient.wire import packets as p


class PacketTests(SynchronousTestCase):
    def test_correlation_fields_do_not_travel_on_old_connections(self) -> None:
        for packet, version in (
            (p.NullResponse(5), 129),
            (p.Commit(5), 131),
            (p.ExceptionResponse(0, None, 5), 129),
            (p.XaResponse(False, 0, None, 5, groups=1), 129),
        ):
            body = p.encode_packet(packet, version)
            found: Any = p.decode_packet(packet.TYPE, body + bytes(8), version)  # surplus bytes, not a correlation id
            self.assertIn(found.correlation_id, (None, -1))

    def test_passwords_are_not_shown(self) -> None:
        for packet in (
            p.CreateSession("s", 10, 136, "admin", "secret"),
            p.ClusterConnect("admin", "secret"),
            p.BackupRegistration("admin", "secret", False, None),  # type: ignore[arg-type]
        ):
            self.assertNotIn("secret", repr(packet))
