"""What is wrong with a configuration: all of it, in the order of its lines."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.problems import ConfigurationError, Findings, Problem, WrittenFilter, sorted_by_place


class FindingsTests(SynchronousTestCase):
    def test_warnings_do_not_make_a_configuration_unusable(self) -> None:
        findings = Findings()
        findings.warn("broker.xml", 3, "odd")
        findings.check()
        self.assertEqual(findings.warnings, [Problem("broker.xml", 3, "odd")])

    def test_all_errors_are_told_at_once_in_the_order_of_their_lines(self) -> None:
        findings = Findings()
        findings.error("broker.xml", 9, "late")
        findings.error("broker.xml", 2, "early")
        error = self.assertRaises(ConfigurationError, findings.check)
        self.assertEqual(str(error), "broker.xml:2: early\nbroker.xml:9: late")
        self.assertEqual((error.file, error.line, error.text), ("broker.xml", 2, "early"))

    def test_a_problem_of_a_whole_file_has_no_line(self) -> None:
        self.assertEqual(str(Problem("broker.xml", 0, "missing")), "broker.xml: missing")

    def test_files_stay_in_the_order_in_which_they_were_met(self) -> None:
        met = [Problem("b", 7, ""), Problem("a", 1, ""), Problem("b", 2, "")]
        self.assertEqual([(problem.file, problem.line) for problem in sorted_by_place(met)], [("b", 2), ("b", 7), ("a", 1)])

    def test_filters_are_noted_with_their_place_and_empty_ones_are_none(self) -> None:
        findings = Findings()
        findings.filter("a = 1", "broker.xml", 4)
        findings.filter("", "broker.xml", 5)
        findings.filter(None, "broker.xml", 6)
        self.assertEqual(findings.filters, [WrittenFilter("a = 1", "broker.xml", 4)])
