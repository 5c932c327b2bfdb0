"""The client guide names what there is."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from mqclient.core.api import WITHOUT_EFFECT as CORE_WITHOUT_EFFECT
from mqclient.jms.settings import WITHOUT_EFFECT, FactorySettings

ROOT = Path(__file__).resolve().parents[4]
GUIDE = (ROOT / "docs" / "client-guide.md").read_text("utf-8")


class GuideTests(SynchronousTestCase):
    def test_every_url_parameter_is_there(self) -> None:
        names = {entry.metadata["url"] for entry in fields(FactorySettings) if "url" in entry.metadata} | set(WITHOUT_EFFECT)
        names |= {name for name in CORE_WITHOUT_EFFECT if not name.endswith(("BlackList", "WhiteList"))}
        self.assertEqual({name for name in names if f"`{name}`" not in GUIDE}, set())

    def test_the_first_example_is_the_program(self) -> None:
        self.assertIn((ROOT / "examples" / "first_message.py").read_text("utf-8"), GUIDE)
