"""An element that the documentation calls honoured must be read by the broker."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.model.address_elements import ADDRESS_SETTING
from mqbroker.config.model.blocks import CORE
from mqbroker.config.model.transport_elements import ACCEPTOR
from mqbroker.config.schema.model import Item, Support

NOT_WIRED = {"redistribution-delay", "clusterConnection"}
"""Elements that only a broker in a cluster reads, which a broker refuses to be yet."""

SOURCE = Path(__file__).parents[3] / "src" / "mqbroker"

READ_BY_THE_PARSER = {"system-property-prefix", "mask-password", "password-codec", "literal-match-markers", "protocols", "protocol"}
"""Elements whose whole effect is on how the file itself is read."""


class HonouredTests(SynchronousTestCase):
    def setUp(self) -> None:
        paths = [path for path in SOURCE.rglob("*.py") if SOURCE / "config" not in path.parents]
        self.text = "\n".join(path.read_text() for path in paths)

    def unread(self, items: Iterable[Item], pattern: str) -> set[str]:
        wanted = {item for item in items if item.support is Support.HONOURED and item.name not in READ_BY_THE_PARSER | NOT_WIRED}
        return {item.name for item in wanted if not re.search(pattern.format(name=item.name, field=item.target), self.text)}

    def test_elements(self) -> None:
        pattern = r"""\.{field}\b|"{field}\""""
        self.assertEqual(self.unread(CORE.items(), pattern), set())
        self.assertEqual(self.unread(ADDRESS_SETTING, pattern), set())

    def test_parameters_of_acceptors(self) -> None:
        self.assertEqual(self.unread(ACCEPTOR, '"{name}"'), set())
