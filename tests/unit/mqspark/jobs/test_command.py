"""What the jobs share: options, exit statuses, sentences for errors, the report.  No Spark session is started here."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout

import click
from twisted.trial.unittest import SynchronousTestCase

from mqspark.errors import BadOptionError, BrokerUnreachableError, LoginError, MqsparkError
from mqspark.jobs import JobError, Report, Run, job_command
from mqspark.jobs.command import invoke, root

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


class CommandCase(SynchronousTestCase):
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


class CommandTests(CommandCase):
    def test_help_shows_the_jobs_own_options_first(self) -> None:
        with click.Context(self.probe, info_name="probe") as context:
            text = self.probe.get_help(context)
        self.assertIn("Probes.", text)
        places = [text.index(option) for option in ("--to", "--url", "--user", "--password-file", "--master", "--conf", "--dry-run")]
        self.assertEqual(places, sorted(places))

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


class NamesTests(SynchronousTestCase):
    def test_the_group_lists_what_there_is(self) -> None:
        with click.Context(root) as context:
            self.assertEqual(tuple(root.list_commands(context)), JOBS)
