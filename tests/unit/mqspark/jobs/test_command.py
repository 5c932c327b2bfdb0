"""What the jobs share: options, exit statuses, sentences for errors, the report.  No Spark session is started here."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout

import click
from rich.console import Console
from twisted.trial.unittest import SynchronousTestCase

from mqspark.errors import BadOptionError, BrokerUnreachableError, LoginError, MqsparkError
from mqspark.jobs import JobError, Report, Run, job_command
from mqspark.jobs.command import invoke, root
from mqspark.jobs.progress import NoProgress, RichProgress
from mqspark.jobs.report import cell_text, print_report, size_text
from mqspark.jobs.session import parse_conf
from mqspark.jobs.status import sentence_of, status_of

JOBS = ("archive", "replay", "audit", "stats", "deadletters", "settle", "transactions")
UNREACHABLE = ("--url", "tcp://127.0.0.1:1", "--option", "connectTimeout=100")
"""A place where nobody listens."""


def run_command(command: click.Command, *arguments: str) -> tuple[int, str, str]:
    """Exit status, stdout and stderr of ``command``, run as the group runs it."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        status = command.main(args=list(arguments), standalone_mode=False)
    return status, out.getvalue(), err.getvalue()


def invoked(*arguments: str) -> tuple[int, str, str]:
    """Exit status, stdout and stderr of ``python -m mqspark`` with these arguments."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        status = invoke(list(arguments))
    return status, out.getvalue(), err.getvalue()


class GroupTests(SynchronousTestCase):
    def test_help_names_every_job_and_the_exit_statuses(self) -> None:
        status, out, _ = invoked("--help")
        self.assertEqual(status, 0)
        for name in JOBS:
            self.assertIn(name, out)
        self.assertIn("Exit status:", out)

    def test_no_argument_shows_the_help(self) -> None:
        status, out, _ = invoked()
        self.assertEqual(status, 0)
        self.assertIn("deadletters", out)

    def test_an_unknown_job_is_answered_with_the_nearest(self) -> None:
        status, _, err = invoked("archve")
        self.assertEqual(status, 2)
        self.assertIn("There is no job 'archve'. Did you mean 'archive'?", err)

    def test_help_starts_neither_spark_nor_the_jobs(self) -> None:
        """A help text is to come at once: pyspark alone takes longer to import than all else."""
        code = (
            "import sys; from mqspark.jobs.command import invoke; status = invoke(['--help']);"
            "print(status, [name for name in sys.modules if name.split('.')[0] in ('pyspark', 'pyarrow', 'pandas')])"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=os.environ, timeout=60, check=True)
        self.assertEqual(done.stdout.splitlines()[-1], "0 []")


class CommandTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.runs: list[tuple[Run, str]] = []
        self.answer: Report | Exception = Report()

        @job_command("probe", epilog="Example: probe")
        @click.option("--to", required=True)
        def probe(run: Run, to: str) -> Report:
            """Probes."""
            self.runs.append((run, to))
            if isinstance(self.answer, Exception):
                raise self.answer
            return self.answer

        self.probe = probe

    def test_help_shows_the_jobs_own_options_first(self) -> None:
        with click.Context(self.probe, info_name="probe") as context:
            text = self.probe.get_help(context)
        self.assertIn("Probes.", text)
        places = [text.index(option) for option in ("--to", "--url", "--user", "--password-file", "--master", "--conf", "--dry-run")]
        self.assertEqual(places, sorted(places))

    def test_the_job_gets_the_options_of_the_data_source_and_of_spark(self) -> None:
        arguments = "--url tcp://b:1 --user u --password-file f --option selector=a=1 --master local[1] --conf spark.x=y=z --dry-run --to t"
        self.assertEqual(run_command(self.probe, *arguments.split())[0], 0)
        run, to = self.runs[0]
        self.assertEqual(run.broker, {"url": "tcp://b:1", "user": "u", "passwordFile": "f", "selector": "a=1"})
        self.assertEqual((run.spark.master, dict(run.spark.conf), run.dry_run, to), ("local[1]", {"spark.x": "y=z"}, True, "t"))

    def test_a_job_without_broker_has_no_url(self) -> None:
        @job_command("local", broker=False)
        def local(run: Run) -> Report:
            self.runs.append((run, ""))
            return Report()

        self.assertEqual(run_command(local)[0], 0)
        self.assertEqual(self.runs[0][0].broker, {})
        self.assertRaises(click.NoSuchOption, run_command, local, "--url", "tcp://b")

    def test_the_report_decides_the_status_and_is_printed_on_stdout(self) -> None:
        self.answer = Report(notes=["[3] messages are missing"], status=4)
        self.answer.table("Found", "kind", "messages").add("lost", 1234)
        status, out, err = run_command(self.probe, "--to", "t")
        self.assertEqual((status, err), (4, ""))
        self.assertIn("1,234", out)
        self.assertIn("[3] messages are missing", out)

    def test_errors_become_a_sentence_and_a_status(self) -> None:
        for error, status in (
            (JobError("the archive is empty"), 1),
            (MqsparkError("refused"), 1),
            (BadOptionError("the option x"), 2),
            (BrokerUnreachableError("nobody at tcp://b"), 3),
            (LoginError("wrong password"), 3),
        ):
            self.answer = error
            self.assertEqual(run_command(self.probe, "--to", "t"), (status, "", f"Error: {error}\n"))

    def test_a_defect_is_not_hidden(self) -> None:
        self.answer = ZeroDivisionError("ours")
        self.assertRaises(ZeroDivisionError, run_command, self.probe, "--to", "t")

    def test_a_setting_without_a_value_is_refused(self) -> None:
        self.assertRaises(BadOptionError, run_command, self.probe, "--to", "t", "--conf", "spark.x")
        self.assertRaises(BadOptionError, parse_conf, ("=1",))


class ErrorTests(SynchronousTestCase):
    trace = (
        "[PYTHON_DATA_SOURCE_ERROR] Failed when Python data source instance planning: Traceback (most recent call last):\n"
        '  File "worker.py", line 1, in main\n'
        "mqspark.errors.BrokerUnreachableError: no broker answers at tcp://localhost:1\n\n"
    )

    def test_our_sentence_is_found_inside_the_traces_of_spark(self) -> None:
        error = RuntimeError(self.trace)
        self.assertEqual(sentence_of(error), "no broker answers at tcp://localhost:1")
        self.assertEqual(status_of(error), 3)

    def test_of_other_errors_the_first_line_is_shown(self) -> None:
        self.assertEqual(
            sentence_of(RuntimeError("\n[PATH_NOT_FOUND] no such path\nJVM stacktrace")), "Spark: [PATH_NOT_FOUND] no such path"
        )
        self.assertEqual(sentence_of(RuntimeError()), "Spark: RuntimeError")
        self.assertEqual(status_of(RuntimeError("x")), 1)


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


class ProgressTests(SynchronousTestCase):
    def test_nothing_is_written_where_there_is_no_terminal(self) -> None:
        console = Console(file=io.StringIO())
        with RichProgress(console) as progress:
            progress.step("Reading", 3)
            progress.reached(2)
        assert isinstance(console.file, io.StringIO)
        self.assertEqual(console.file.getvalue(), "")

    def test_on_a_terminal_a_finished_step_is_full_also_without_a_known_total(self) -> None:
        console = Console(file=io.StringIO(), force_terminal=True, width=100)
        with RichProgress(console) as progress:
            progress.reached(1)
            progress.step("Reading")
            progress.reached(7)
            progress.step("Writing", 5)
            progress.reached(4, 8)
        assert isinstance(console.file, io.StringIO)
        last = console.file.getvalue().rstrip().splitlines()
        self.assertTrue(any("7/7" in line for line in last))
        self.assertTrue(any("8/8" in line for line in last))

    def test_the_silent_one_takes_everything(self) -> None:
        progress = NoProgress()
        progress.step("x", 1)
        progress.reached(1, 2)


class NamesTests(SynchronousTestCase):
    def test_the_group_lists_what_there_is(self) -> None:
        with click.Context(root) as context:
            self.assertEqual(tuple(root.list_commands(context)), JOBS)
