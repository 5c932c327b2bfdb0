"""End the prepared transactions of ``exactlyOnce=transactions`` that drivers which are gone have left on the brokers."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack

import click

from mqspark.broker.broker import connect, nodes
from mqspark.jobs import status
from mqspark.jobs.command import Run, job_command
from mqspark.jobs.report import Report
from mqspark.options import Options, Use
from mqspark.transactions.branches import NodeBranches
from mqspark.transactions.healing import UNDECIDED, Doubt, heal


@job_command("transactions", epilog="Example: python -m mqspark transactions --url tcp://host:61616 --dry-run")
@click.option(
    "--give-up",
    "given_up",
    multiple=True,
    metavar="ID",
    help="Roll back what this query or write job has prepared but not decided. It must not be running. May be given several times.",
)
def command(run: Run, given_up: tuple[str, ...]) -> Report:
    """End prepared transactions of drivers that are gone.

    Decided transactions are completed: those of a committed batch are committed, and those that the batch has left out are rolled back.
    Undecided transactions are shown, and stay for the next run of their query. Give up those of a query that will not run again.
    """
    run.progress.step("Looking for transactions")
    return doubts_report(end_transactions(Options.parse(run.broker, Use.JOB), given_up, run.dry_run), run.dry_run)


def end_transactions(options: Options, given_up: Sequence[str] = (), dry_run: bool = False) -> list[Doubt]:
    """The prepared transactions on all nodes of the cluster, with outcomes.  Raises MqsparkError, also when a node cannot be reached."""
    with ExitStack() as stack:
        found = {node.node_id: NodeBranches(stack.enter_context(connect(options, node))) for node in nodes(options)}
        return heal(found, time.time_ns() // 1_000_000, given_up=given_up, dry_run=dry_run)


def doubts_report(doubts: Sequence[Doubt], dry_run: bool = False) -> Report:
    """A table of the transactions; the job has failed when some are undecided."""
    answer = Report()
    if not doubts:
        answer.notes.append("No transaction of the sink is prepared.")
        return answer
    table = answer.table(
        "To be ended" if dry_run else "Prepared transactions", "node", "query or job", "batch", "partition", "outcome", "why"
    )
    for doubt in doubts:
        table.add(doubt.node_id, doubt.query, doubt.batch, doubt.partition, doubt.outcome, doubt.why)
    if any(doubt.outcome == UNDECIDED for doubt in doubts):
        answer.notes.append("Undecided ones stay. To give up those of a query or job that will never run again, use --give-up ID.")
        answer.status = status.FAILED
    return answer
