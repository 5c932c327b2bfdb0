from __future__ import annotations

from importlib.machinery import EXTENSION_SUFFIXES
from types import SimpleNamespace

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.process import forms
from tests.unit.cli.runner import mqbroker


class FormTests(SynchronousTestCase):
    def form(self, broker: str, client: str) -> str:
        files = {"mqbroker": f"queue{broker}", "mqclient": f"properties{client}"}
        self.patch(forms, "find_spec", lambda name: SimpleNamespace(origin=files[name.partition(".")[0]]))
        return forms.running_form()

    def test_the_files_of_both_distributions_decide(self) -> None:
        native = EXTENSION_SUFFIXES[0]
        self.assertEqual(self.form(".py", ".py"), "pure")
        self.assertEqual(self.form(native, native), "compiled")
        self.assertEqual([self.form(native, ".py"), self.form(".py", native)], ["mixed", "mixed"])

    def test_a_module_without_a_file_is_not_compiled(self) -> None:
        self.patch(forms, "find_spec", lambda name: None)
        self.assertEqual(forms.running_form(), "pure")

    def test_the_version_says_it(self) -> None:
        self.assertIn(f", {forms.running_form()}\n", mqbroker("version").out)
