"""The report at the end of a job."""

from __future__ import annotations

import io

from rich.console import Console
from twisted.trial.unittest import SynchronousTestCase

from mqspark.jobs import Report
from mqspark.jobs.report import cell_text, print_report, size_text


class ReportTests(SynchronousTestCase):
    def text_of(self, report: Report) -> str:
        console = Console(file=io.StringIO(), width=80)
        print_report(report, console)
        assert isinstance(console.file, io.StringIO)
        return console.file.getvalue()

    def test_texts_of_messages_are_no_markup(self) -> None:
        report = Report()
        report.table("Groups", "reason").add("[red]oops[/red]")
        self.assertIn("[red]oops[/red]", self.text_of(report))

    def test_a_table_without_rows_says_so(self) -> None:
        report = Report()
        report.table("Dead letters", "reason")
        self.assertEqual(self.text_of(report), "Dead letters: none\n")

    def test_a_row_has_as_many_cells_as_there_are_columns(self) -> None:
        self.assertRaises(ValueError, Report().table("T", "a", "b").add, 1)

    def test_cells(self) -> None:
        self.assertEqual([cell_text(cell) for cell in (None, True, 1234567, 2.25, "x")], ["-", "yes", "1,234,567", "2.2", "x"])
        self.assertEqual(
            [size_text(size) for size in (0, 1023, 1536, 3 << 40, 5 << 60)], ["0 B", "1023 B", "1.5 KiB", "3.0 TiB", "5120.0 PiB"]
        )
