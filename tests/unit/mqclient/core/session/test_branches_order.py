"""What a session has begun comes before the end of its branch."""

from __future__ import annotations

from typing import Any

from mqclient import xa
from mqclient.errors import AddressFullError, TransactionRolledBackError
from mqclient.wire.packets import (
    ProducerFailCredits,
    XaEnd,
)
from mqclient.xa import XAError
from tests.support.network import pending
from tests.unit.mqclient.core.session.order import BRANCH, CHANNEL, OrderTestCase


class BranchTests(OrderTestCase):
    def begin(self) -> None:
        self.start(branches=True)
        self.resource = self.session.xa_resource
        self.world.finish(self.resource.start(BRANCH))
        self.block()

    def refused(self, code: int, awaitable: Any) -> None:
        self.assertEqual(self.failure(XAError, awaitable).error_code, code)

    def test_its_end_and_the_prepare_behind_it_wait_for_the_sends_in_it(self) -> None:
        self.begin()
        self.sends(3)
        end, prepare = self.resource.end(BRANCH), self.resource.prepare(BRANCH)
        self.world.network.stir()
        self.assertTrue(pending(end) and pending(prepare))
        self.grant()
        self.world.finish(end)
        self.assertEqual(self.world.finish(prepare), xa.XA_OK)
        self.assertEqual(self.told(), ["SESS_XA_START", "SESS_SEND 3", "SESS_XA_END", "SESS_XA_PREPARE"])

    def test_suspending_it_waits_for_them_too(self) -> None:
        self.begin()
        self.sends(1)
        end = self.resource.end(BRANCH, xa.TMSUSPEND)
        self.world.network.stir()
        self.assertTrue(pending(end))
        self.grant()
        self.world.finish(end)
        self.assertEqual(self.told(), ["SESS_XA_START", "SESS_SEND", "SESS_XA_SUSPEND"])

    def test_a_send_that_fails_meanwhile_dooms_it(self) -> None:
        for flags in (xa.TMSUCCESS, xa.TMSUSPEND):
            self.begin()
            [send] = self.sends(1)
            end, prepare = self.resource.end(BRANCH, flags), self.resource.prepare(BRANCH)
            self.broker.deliver(CHANNEL, ProducerFailCredits(10, "a"))
            self.refused(xa.XA_RBOTHER, end)
            self.refused(xa.XAER_RMFAIL, prepare)
            self.failure(AddressFullError, send)
            [ended] = self.broker.got(XaEnd)
            self.assertTrue(ended.failed)
            self.assertIsNone(self.resource.current)

    def test_its_failure_drops_them(self) -> None:
        self.begin()
        [send] = self.sends(1)
        self.world.finish(self.resource.end(BRANCH, xa.TMFAIL))
        self.failure(TransactionRolledBackError, send)
        self.assertEqual(self.told(), ["SESS_XA_START", "SESS_XA_END"])

    def test_what_was_begun_before_it_is_no_part_of_it(self) -> None:
        self.start(branches=True)
        self.block()
        self.sends(2)
        start = self.session.xa_resource.start(BRANCH)
        self.sends(1)
        self.world.network.stir()
        self.assertTrue(pending(start))
        self.grant()
        self.world.finish(start)
        self.assertEqual(self.told(), ["SESS_SEND 2", "SESS_XA_START", "SESS_SEND"])
