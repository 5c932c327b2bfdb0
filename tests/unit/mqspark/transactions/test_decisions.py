"""Xids of Spark's branches, and the decisions that stand in them."""

from __future__ import annotations

import uuid

from mqclient.xa import Xid
from tests.unit.mqspark.transactions.test_branches import OTHER, QUERY, BranchesTestCase

try:
    import pyspark

    from mqspark.errors import MqsparkError
    from mqspark.transactions.decisions import Batch, Branch, decode_decision, encode_decision, new_xid, parts_of, sixteen
except ImportError:
    pyspark = None


class XidTests(BranchesTestCase):
    def test_layout(self) -> None:
        batch = Batch(QUERY, 258)
        xid = new_xid(batch, OTHER, 3, 1, bytes(range(8)))
        self.assertEqual(xid.format_id, 0x6D717370)
        self.assertEqual(xid.global_transaction_id, uuid.UUID(QUERY).bytes + bytes(6) + b"\x01\x02" + uuid.UUID(OTHER).bytes)
        self.assertEqual(xid.branch_qualifier, b"\0\0\0\x03\0\0\0\x01" + bytes(range(8)))
        parts = parts_of(xid)
        assert parts is not None
        self.assertEqual((parts.query, parts.batch, parts.home, parts.partition), (sixteen(QUERY), 258, sixteen(OTHER), 3))

    def test_branches_of_others(self) -> None:
        self.assertIsNone(parts_of(Xid(0, b"x", b"y")))
        self.assertIsNone(parts_of(Xid(0x6D717370, b"x", b"y")))

    def test_names_that_are_no_uuid(self) -> None:
        self.assertEqual(len(sixteen("node one")), 16)
        self.assertNotEqual(sixteen("node one"), sixteen("node two"))

    def test_decisions(self) -> None:
        found = [Branch("a", new_xid(Batch(QUERY, 0), "a", 0, 0, bytes(8)))]
        self.assertEqual(decode_decision(encode_decision(found)), found)
        for text in ("", "{}", '{"version":2,"branches":[]}', '{"version":1,"branches":[["a","zz",""]]}', "[]"):
            self.assertRaises(MqsparkError, decode_decision, text)
