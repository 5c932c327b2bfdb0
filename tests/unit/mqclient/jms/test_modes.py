"""Acknowledge and delivery modes."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqclient.jms.exceptions import JMSException
from mqclient.jms.modes import AcknowledgeMode, session_flags
from mqclient.jms.settings import FactorySettings


class ModeTests(SynchronousTestCase):
    def test_the_flags_of_every_mode(self) -> None:
        settings = FactorySettings(ack_batch_size=1, transaction_batch_size=2, dups_ok_batch_size=3)
        for mode, flags in [
            (AcknowledgeMode.SESSION_TRANSACTED, (False, False, False, 2)),
            (AcknowledgeMode.AUTO_ACKNOWLEDGE, (True, True, False, 0)),
            (AcknowledgeMode.CLIENT_ACKNOWLEDGE, (True, False, False, 1)),
            (AcknowledgeMode.DUPS_OK_ACKNOWLEDGE, (True, True, False, 3)),
            (AcknowledgeMode.PRE_ACKNOWLEDGE, (True, False, True, 2)),
            (AcknowledgeMode.INDIVIDUAL_ACKNOWLEDGE, (True, False, False, 1)),
        ]:
            self.assertEqual(session_flags(mode, settings), flags)
        self.assertRaises(JMSException, session_flags, 55, settings)

    def test_settings_change_them(self) -> None:
        settings = FactorySettings(pre_acknowledge=True, block_on_acknowledge=True, transaction_batch_size=2)
        self.assertEqual(session_flags(AcknowledgeMode.CLIENT_ACKNOWLEDGE, settings), (True, False, True, 2))
        self.assertFalse(session_flags(AcknowledgeMode.INDIVIDUAL_ACKNOWLEDGE, settings).pre_acknowledge)
