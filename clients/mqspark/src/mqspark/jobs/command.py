"""Common parts of the commands: options, one sentence for each error, exit statuses, progress, and the report at the end.

::

    @job_command("archive", epilog="Example: python -m mqspark archive --queue orders --to archive")
    @click.option("--to", required=True, help="…")
    def command(run: Run, to: str) -> Report:
        '''Write queues to Parquet.'''
        …

gives a command with ``--url``, ``--user``, ``--master``, ``--conf``, ``--dry-run`` and so on besides ``--to``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import click

from mqspark.errors import BadOptionError, MqsparkError
from mqspark.jobs import status
from mqspark.jobs.progress import Progress, RichProgress
from mqspark.jobs.report import Report, print_report
from mqspark.jobs.session import Configure, SparkSettings, parse_conf, spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFAULT_URL: Final = "tcp://localhost:61616"
_REPORT_WIDTH = 160  # characters, where there is no terminal to ask: a table in a log is not to be folded at 80


@dataclass(frozen=True, slots=True)
class Run:
    """The arguments of a command besides its own options."""

    name: str
    broker: Mapping[str, str]
    """Options of the data source ``mqbroker`` that say how to reach the broker; empty for a job that needs none."""
    spark: SparkSettings
    dry_run: bool
    progress: Progress

    def session(self, configure: Configure | None = None) -> AbstractContextManager[SparkSession]:
        """The Spark session, for a ``with`` statement; ``configure`` sets the job's own settings where the user has set none."""
        return spark_session(self.spark, self.name, configure)


_BROKER_OPTIONS = (
    click.option("--url", default=DEFAULT_URL, show_default=True, help="URL of the broker; for a cluster, of any member, or of several."),
    click.option("--user", help="User to log in as."),
    click.option("--password-file", metavar="FILE", help="File whose first line is the password."),
    click.option("--password-env", metavar="NAME", help="Environment variable that holds the password."),
    click.option(
        "--option",
        "source_options",
        multiple=True,
        metavar="NAME=VALUE",
        help="Any other option of the data source 'mqbroker'. May be given several times.",
    ),
)

_SPARK_OPTIONS = (
    click.option(
        "--master", help="Master of Spark: local[4], spark://host:7077, yarn. Default: as configured for Spark, otherwise local[*]."
    ),
    click.option("--conf", multiple=True, metavar="NAME=VALUE", help="Setting of Spark, as for spark-submit. May be given several times."),
    click.option("--verbose", is_flag=True, help="Show Spark's own log, and the traceback of an error."),
)

_DRY_RUN = click.option("--dry-run", is_flag=True, help="Only print what would be done.")


def job_command(name: str, *, broker: bool = True, epilog: str = "") -> Callable[[Callable[..., Report]], click.Command]:
    """The decorator that makes a command of a function ``(run, **own options) -> Report``.

    ``broker=False``: the command talks to no broker, and has no ``--url`` and so on.
    """

    def decorate(function: Callable[..., Report]) -> click.Command:
        def callback(**values: Any) -> int:
            return _run(name, function, values)

        callback.__doc__ = function.__doc__
        callback.__click_params__ = list(getattr(function, "__click_params__", []))  # type: ignore[attr-defined]
        decorated: Callable[..., int] = callback
        own = callback.__click_params__  # type: ignore[attr-defined]
        common: list[click.Parameter] = []
        for option in (*(_BROKER_OPTIONS if broker else ()), *_SPARK_OPTIONS, _DRY_RUN):
            option(decorated)
            common.append(own.pop())
        own[:0] = reversed(common)  # click shows options from the last to the first: the job's own come first
        return click.command(name=name, epilog=epilog)(decorated)

    return decorate


def _run(name: str, function: Callable[..., Report], values: dict[str, Any]) -> int:
    from rich.console import Console

    broker = _broker(values)
    settings = SparkSettings(values.pop("master"), parse_conf(values.pop("conf")), values.pop("verbose"))
    dry_run = values.pop("dry_run")
    errors = Console(stderr=True)
    try:
        with RichProgress(errors) as progress:
            report = function(Run(name, broker, settings, dry_run, progress), **values)
    except click.ClickException:
        raise
    except Exception as error:
        if not _expected(error):
            raise
        if settings.verbose:
            errors.print_exception()
        click.echo(f"Error: {status.sentence_of(error)}", err=True)
        return status.status_of(error)
    print_report(report, Console() if sys.stdout.isatty() else Console(width=_REPORT_WIDTH))
    return report.status


def _broker(values: dict[str, Any]) -> dict[str, str]:
    """Take the options of the broker out of ``values``, under the names of the data source."""
    if "url" not in values:
        return {}
    options = parse_conf(values.pop("source_options"))
    for name, option in (("url", "url"), ("user", "user"), ("password_file", "passwordFile"), ("password_env", "passwordEnv")):
        value = values.pop(name)
        if value is not None:
            options[option] = value
    return options


def _expected(error: Exception) -> bool:
    """Is a sentence enough to explain this error?  Any other error is a defect of mqspark, and shows its trace."""
    if isinstance(error, MqsparkError):
        return True
    kinds = sys.modules.get("pyspark.errors")
    return (kinds is not None and isinstance(error, kinds.PySparkException)) or type(error).__module__.startswith("py4j")


class JobGroup(click.Group):
    """The group of the jobs: a job's module is imported when its command runs; ``--help`` imports none."""

    def __init__(self, *args: Any, jobs: Mapping[str, str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._jobs = dict(jobs)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._jobs)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        import importlib

        if cmd_name not in self._jobs:
            return None
        command = importlib.import_module(f"mqspark.jobs.{cmd_name}").command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Jobs"):
            formatter.write_dl(list(self._jobs.items()))

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        """As click's, but an unknown job is answered with the nearest known one."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            from mqclient.text import nearest_name

            near = nearest_name(args[0], self._jobs) if args else None
            hint = f"Did you mean '{near}'?" if near else f"Jobs: {', '.join(self._jobs)}."
            raise click.UsageError(f"There is no job '{args[0] if args else ''}'. {hint}", ctx) from error


@click.group(
    name="mqspark",
    cls=JobGroup,
    epilog="Exit status: 0 done, 1 failed or partly refused, 2 usage, 3 no connection, 4 findings (audit), 130 interrupted.",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    jobs={
        "archive": "Write queues or addresses to Parquet or Delta, exactly once.",
        "replay": "Send messages of an archive again.",
        "audit": "Look for lost, doubled and reordered messages.",
        "stats": "Throughput, latency and sizes of an archive, as tables and as an HTML report.",
        "deadletters": "Group dead letters by their reason, and retry them.",
        "settle": "Settle on the broker what a stopped stream has committed.",
        "transactions": "End prepared transactions of drivers that are gone.",
    },
)
def root() -> None:
    """Jobs of mqspark, on Spark."""


def invoke(arguments: list[str] | None = None) -> int:
    """Run the command line in ``arguments`` (default: the process's arguments) and return its exit status; errors go to stderr."""
    try:
        result = root.main(args=arguments, prog_name="python -m mqspark", standalone_mode=False)
        return result if isinstance(result, int) else status.OK
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        return status.OK
    except click.UsageError as error:
        error.show()
        return status.USAGE
    except click.ClickException as error:
        error.show()
        return status.FAILED
    except BadOptionError as error:
        click.echo(f"Error: {error}", err=True)
        return status.USAGE
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        return status.INTERRUPTED
    except BrokenPipeError:
        sys.stderr.close()
        return status.OK
