"""The page of the options."""

from __future__ import annotations

from mqbroker.config.imq.table import PROPERTIES
from tests.unit.config.model.test_blocks import TableCase
from tests.unit.docs.pages import load_program, read


class ConfigurationPageTests(TableCase):
    def setUp(self) -> None:
        self.text: str = load_program("docs", "generate_configuration.py").render()

    def test_the_page_is_up_to_date(self) -> None:
        self.assertTrue(
            read("docs", "configuration.md") == self.text, "docs/configuration.md is stale: python docs/generate_configuration.py"
        )

    def test_the_page_of_properties_is_up_to_date(self) -> None:
        text = load_program("docs", "generate_configuration.py").render_imq()
        self.assertTrue(read("docs", "imq-properties.md") == text, "docs/imq-properties.md is stale: python docs/generate_configuration.py")
        self.assertEqual([each.name for each in PROPERTIES if f"`{each.name}`" not in text], [])

    def test_the_page_names_everything(self) -> None:
        for name in self.schema():
            self.assertIn(name.rpartition("/")[2], self.text)
