"""Branches in doubt in the hands of an operator."""

from __future__ import annotations

import json
from typing import Any

from mqbroker.messaging.delivery.branches import XACode, xid_base64
from mqclient.wire import packets as wire
from mqclient.wire.primitives import Xid
from tests.unit.server.xa import DUPID, NOTA, StateCase, xid


class ManagementTests(StateCase):
    def invoke(self, operation: str, *parameters: Any) -> Any:
        return self.world.registry.invoke("broker", operation, list(parameters))

    def test_lists(self) -> None:
        self.plain.publish(b"taken")
        self.session.session.consume()
        self.session.takes("t", prepare=True)
        self.session.sends("u", b"sent", prepare=True)
        first, second = self.invoke("listPreparedTransactions")
        self.assertRegex(
            first, r"^\d+/\d+/\d\d, \d+:\d\d:\d\d [AP]M base64: YnQHAAAA XidImpl \(bq:98 formatID:7 gtxid:116 base64:YnQHAAAA\)$"
        )
        self.assertIn(xid_base64(xid("u")), second)
        one, two = json.loads(self.invoke("listPreparedTransactionDetailsAsJSON"))
        self.assertEqual(
            (one["xid_as_base64"], one["xid_format_id"], one["xid_global_txid"], one["xid_branch_qual"]), ("YnQHAAAA", 7, "t", "b")
        )
        for row, kind in ((one, "(-) receive"), (two, "(+) send")):
            (message,) = row["tx_related_messages"]
            self.assertEqual((message["message_operation_type"], message["message_type"]), (kind, "ByteMessage"))
            self.assertEqual(message["message_properties"]["address"], "q")

    def test_names_are_those_that_artemis_prints(self) -> None:
        self.assertEqual(xid_base64(Xid(-3, b"", b"neg")), "bmVn_f___w==")
        self.assertEqual(xid_base64(Xid(131077, b"", b"neg")), "bmVnBwICAA==")

    def test_commit(self) -> None:
        self.plain.publish(b"taken")
        self.session.session.consume()
        self.session.takes("t", prepare=True)
        self.session.sends("u", b"sent", prepare=True)
        for name in ("t", "u"):
            self.assertIs(self.invoke("commitPreparedTransaction", xid_base64(xid(name))), True)
        self.assertEqual((self.visible() or self.session.session.bodies(), self.queue.messages_acknowledged), ([b"sent"], 1))
        self.assertEqual(self.invoke("listPreparedTransactions"), [])
        self.assertEqual(self.invoke("listHeuristicCommittedTransactions"), ["YnQHAAAA", "YnUHAAAA"])
        self.assertEqual(self.session.in_doubt(), ["t", "u"])
        self.assertEqual((self.session.commit("u"), self.session.rollback("u")), (XACode.HEURISTIC_COMMIT,) * 2)
        self.assertEqual((self.session.start("u"), self.session.prepare("u")), (DUPID, NOTA))
        self.assertEqual([self.session.ask(wire.XaForget(xid("u"))) for _ in range(2)], [0, NOTA])
        self.assertEqual((self.session.in_doubt(), self.session.commit("u"), self.session.start("u")), (["t"], NOTA, 0))

    def test_rollback(self) -> None:
        self.session.sends("t", b"sent", prepare=True)
        self.assertIs(self.invoke("rollbackPreparedTransaction", xid_base64(xid("t"))), True)
        self.assertEqual((self.visible(), self.queue.arriving), ([], 0))
        self.assertEqual(self.invoke("listHeuristicRolledBackTransactions"), ["YnQHAAAA"])
        self.assertEqual((self.session.commit("t"), self.session.rollback("t")), (XACode.HEURISTIC_ROLLBACK,) * 2)
        self.assertEqual(self.session.ask(wire.XaForget(xid("t"))), 0)

    def test_what_is_not_prepared_cannot_be_decided(self) -> None:
        self.session.sends("t", b"sent")
        for operation in ("commitPreparedTransaction", "rollbackPreparedTransaction"):
            self.assertIs(self.invoke(operation, xid_base64(xid("t"))), False)
            self.assertIs(self.invoke(operation, "nonsense"), False)
        self.assertEqual(self.session.commit("t", True), 0)

    def test_a_name_that_fits_two_branches(self) -> None:
        for qualifier, transaction in ((b"ab", b"c"), (b"a", b"bc")):
            each = Xid(7, qualifier, transaction)
            for packet in (wire.XaStart, wire.XaEnd, wire.XaPrepare):
                self.assertEqual(self.session.ask(packet(each)), 0)
        with self.assertRaisesRegex(Exception, "2 prepared branches have the name"):
            self.invoke("commitPreparedTransaction", xid_base64(Xid(7, b"ab", b"c")))
        self.assertEqual(len(self.invoke("listPreparedTransactions")), 2)
