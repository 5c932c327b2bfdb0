"""Looks for planted faults by the seeds of one kind of runs."""

from __future__ import annotations

import unittest
from collections.abc import Mapping, Sequence

from mqbroker.process.forms import running_form
from tests.simulation import plants
from tests.simulation.many import run_many
from tests.simulation.plants import Plant

FIRST = 4
"""Most plants are found by one of so many: sooner than other processes begin."""


def look_for(test: unittest.TestCase, known: Mapping[str, Plant | None], kind: str, seeds: Sequence[int]) -> None:
    """Every plant must be found, with one of its symptoms."""
    for name, plant in known.items():
        if plant is None or (running_form() != "pure" and plants.is_compiled(plant)):
            continue
        with test.subTest(name):
            summary = run_many((*plant.seeds, *seeds[:FIRST]), 1, name, first_failure=True, kind=kind)
            if not summary.failed:
                summary = run_many(seeds[FIRST:], plant=name, first_failure=True, kind=kind)
            test.assertTrue(summary.failed, f"{summary.seeds} seeds have not found {name}")
            (outcome,) = summary.failed
            print(f"{name} is found by seed {outcome.seed}, run number {summary.seeds}: {outcome.violations[0]}")
            test.assertTrue(any(symptom in text for text in outcome.violations for symptom in plant.symptoms), outcome.violations)
            of_kind = "" if kind == "single" else f"--{kind} "
            test.assertIn(f"{of_kind}--seed {outcome.seed} --verbose --plant {name}", outcome.report)
