"""The pictures of the state machines are those of the machines."""

from __future__ import annotations

from typing import Any, Protocol
from xml.etree import ElementTree

from automat import TypeMachineBuilder
from twisted.trial.unittest import SynchronousTestCase

from tests.unit.docs.pages import load_program, read


class Lamp(Protocol):
    def switch_on(self) -> None: ...

    def switch_off(self) -> None: ...


def lamp() -> Any:
    build = TypeMachineBuilder(Lamp, object)
    dark, lit = build.state("dark"), build.state("lit & hot")
    dark.upon(Lamp.switch_on).to(lit).returns(None)
    lit.upon(Lamp.switch_off).to(dark).returns(None)
    dark.upon(Lamp.switch_off).loop().returns(None)
    return build.build()


class PictureTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.program = load_program("docs", "generate_state_machines.py")

    def test_pictures_are_fresh(self) -> None:
        """If this fails: python docs/generate_state_machines.py"""
        kept = {path.name: path.read_text(encoding="utf-8") for path in self.program.PICTURES.iterdir()}
        self.assertEqual(kept, self.program.pictures())

    def test_every_machine_is_shown(self) -> None:
        names = [machine.name for machine in self.program.machines()]
        self.assertIn("mqclient.core.connection.lifecycle.make_lifecycle", names)
        page = read("docs", "architecture.md")
        self.assertEqual([name for name in names if f"(state-machines/{name}.svg)" not in page], [])

    def test_a_machine_drawn(self) -> None:
        machine = self.program.describe("example.lamp", lamp(), {})
        self.assertEqual(machine.states, ("dark", "lit & hot"))
        text = self.program.dot(machine)
        self.assertIn('"dark" -> "lit & hot" [label="switch_on"];', text)
        self.assertNotIn('"dark" -> "dark"', text)
        texts = [element.text for element in ElementTree.fromstring(self.program.svg(machine)).iter("{http://www.w3.org/2000/svg}text")]
        self.assertEqual(texts, ["dark", "lit", "&", "hot", "switch_on", "switch_off", "ignored in dark: switch_off"])
