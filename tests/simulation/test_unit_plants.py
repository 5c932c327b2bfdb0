"""The faults that runs do not find are found by the unit tests that are named with them."""

from __future__ import annotations

import importlib.util
import io
import sys
import unittest
from unittest import mock

from mqbroker.process.forms import running_form
from tests.simulation import plants
from tests.simulation.plants import UNIT_PLANTS, planted

OWN = ("mqbroker", "mqclient", "mqspark", "tests")


def outcome_of(name: str) -> unittest.TestResult:
    """Run a module of tests until the first one fails.

    The module is made anew: its imports are those of now, and property tests may be run by one case of theirs only.  The product's modules
    that it is the first to import are forgotten with it; libraries stay, for some of them cannot be imported twice.
    """
    spec = importlib.util.find_spec(name)
    assert spec is not None and spec.loader is not None, name
    module = importlib.util.module_from_spec(spec)
    with mock.patch.dict(sys.modules, {name: module}):
        spec.loader.exec_module(module)
        tests = unittest.defaultTestLoader.loadTestsFromModule(module)
        result = unittest.TextTestRunner(stream=io.StringIO(), failfast=True).run(tests)
        libraries = {imported: found for imported, found in sys.modules.items() if imported.partition(".")[0] not in OWN}
    sys.modules.update(libraries)
    return result


class UnitPlantTests(unittest.TestCase):
    def test_every_planted_fault_is_found_by_its_unit_test(self) -> None:
        for name, plant in UNIT_PLANTS.items():
            if running_form() != "pure" and plants.is_compiled(plant):
                continue
            # What the tests share must not be imported with the fault for good.
            importlib.import_module(plant.unit_test)
            with self.subTest(name), planted(name):
                outcome = outcome_of(plant.unit_test)
                self.assertGreater(outcome.testsRun, 0)
                self.assertFalse(outcome.wasSuccessful(), f"{outcome.testsRun} tests of {plant.unit_test} have not found {name}")
                found, _ = (outcome.failures + outcome.errors)[0]
                print(f"{name} is found by {found.id()}")

    def test_without_the_faults_these_tests_pass(self) -> None:
        for module in sorted({plant.unit_test for plant in UNIT_PLANTS.values()}):
            with self.subTest(module):
                outcome = outcome_of(module)
                self.assertGreater(outcome.testsRun, 0)
                self.assertTrue(outcome.wasSuccessful(), outcome.failures + outcome.errors)
