"""Settle on the broker what a stopped stream has committed.

Spark never tells a source that the last batch of a stream is committed.  When a stream is killed, the messages of that batch stay on the
broker, committed but not settled, until the stream is started again or this job has read its checkpoint.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import click

from mqspark.jobs import status
from mqspark.jobs.command import Run, job_command
from mqspark.jobs.report import Report
from mqspark.options import Options, Use

if TYPE_CHECKING:
    from mqspark.settling import Settled


@job_command("settle", epilog="Example: python -m mqspark settle --checkpoint /data/archive/_checkpoint")
@click.option(
    "--checkpoint",
    required=True,
    metavar="PATH",
    help="The checkpoint of the stream. Spark is started only if the checkpoint is not in a local folder.",
)
def command(run: Run, checkpoint: str) -> Report:
    """Settle on the broker what a stopped stream has committed.

    Use this only for a stream that is not running: a running stream is fenced, and fails.
    """
    from mqspark.settling import settle_checkpoint

    options = Options.parse(run.broker, Use.JOB)
    local = urlsplit(checkpoint).scheme in ("", "file")
    run.progress.step("Settling")
    with nullcontext() if local else run.session() as spark:
        settled = settle_checkpoint(checkpoint, options, dry_run=run.dry_run, spark=spark)
    answer = Report()
    if not settled:
        answer.notes.append(f"The checkpoint {checkpoint} has no committed batch.")
        return answer
    settled_table(answer, settled, run.dry_run)
    return answer


def settled_table(answer: Report, settled: Sequence[Settled], dry_run: bool = False) -> None:
    """Add the settled messages, or with ``dry_run`` those that would be; a queue that could not be settled makes the job fail."""
    table = answer.table("Committed, not settled" if dry_run else "Settled", "node", "queue", "reader", "messages", "up to id", "problem")
    for one in settled:
        table.add(one.node_id, one.queue, one.reader, one.messages, one.position, one.problem)
    failed = sum(one.problem is not None for one in settled)
    if failed:
        answer.notes.append(f"{failed} of {len(settled)} queues could not be settled; the job settle, or the stream's next run, does it.")
        answer.status = status.FAILED
