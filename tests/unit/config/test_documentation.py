"""The page of the options."""

from __future__ import annotations

from mqbroker.config.documentation import render
from tests.unit.config.model.test_blocks import HERE, TableCase

DOCUMENT = HERE.parents[3] / "docs" / "configuration.md"


class DocumentationTests(TableCase):
    def test_the_documentation_is_up_to_date(self) -> None:
        message = "docs/configuration.md is stale: python -m mqbroker.config.documentation > docs/configuration.md"
        self.assertTrue(DOCUMENT.read_text() == render(), message)

    def test_the_documentation_names_everything(self) -> None:
        text = render()
        for name in self.schema():
            self.assertIn(name.rpartition("/")[2], text)
