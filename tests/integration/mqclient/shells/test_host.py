"""What all shells share."""

from __future__ import annotations

import mqclient.asyncio
import mqclient.sockets
import mqclient.twisted
from mqclient.core.api import LocatorSettings
from tests.integration.mqclient.test_shells import ShellTestCase


class HostTests(ShellTestCase):
    def test_url_and_settings_exclude_each_other(self) -> None:
        self.assertRaises(ValueError, mqclient.twisted.server_locator, self.url(), LocatorSettings())
