"""Xids and flags."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from mqclient import xa
from mqclient.wire.primitives import Xid as WireXid
from mqclient.xa import XAError, Xid


class ValueTests(SynchronousTestCase):
    @given(
        st.integers(-(2**31), 2**31 - 1).filter(lambda number: number != -1),
        st.binary(min_size=1, max_size=64),
        st.binary(max_size=64),
    )
    def test_every_allowed_id_travels(self, format_id: int, transaction: bytes, qualifier: bytes) -> None:
        xid = Xid(format_id, transaction, qualifier)
        self.assertEqual(xid.to_wire(), WireXid(format_id, qualifier, transaction))
        self.assertEqual(Xid.from_wire(xid.to_wire()), xid)

    def test_bounds(self) -> None:
        for arguments in [(1, b""), (1, b"g" * 65), (1, b"g", b"b" * 65), (-1, b"g"), (2**31, b"g"), (-(2**31) - 1, b"g")]:
            self.assertRaises(ValueError, Xid, *arguments)
        Xid(0, b"g" * 64, b"b" * 64)

    def test_the_form_that_management_takes(self) -> None:
        self.assertEqual(Xid(21, b"g-commit", b"b").base64, "YmctY29tbWl0FQAAAA==")
        self.assertEqual(Xid(22, b"g-rollback", b"b").base64, "Ymctcm9sbGJhY2sWAAAA")
        self.assertEqual(Xid(-70000, b"gt", b"bq").base64, "YnFndH7t_v8=", "as a real broker shows it")

    def test_errors_name_their_code(self) -> None:
        self.assertEqual(str(XAError(xa.XAER_NOTA, "not here")), "XAER_NOTA: not here")
        self.assertEqual(str(XAError(xa.XA_RBTIMEOUT)), "XA_RBTIMEOUT")
        self.assertEqual(str(XAError(4711)), "XA error 4711")
        self.assertEqual([XAError(code).rolled_back for code in (99, 100, 107, 108, xa.XAER_RMFAIL)], [False, True, True, False, False])
