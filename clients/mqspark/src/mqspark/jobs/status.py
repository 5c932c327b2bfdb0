"""Exit statuses of ``python -m mqspark``, and the error of a job that cannot go on.

Scripts may rely on these numbers; ``docs/spark-jobs.md`` lists them.  They are the statuses of the ``mqbroker`` command, and FINDINGS.
"""

from __future__ import annotations

import re
from typing import Final

from mqspark.errors import BadOptionError, BrokerUnreachableError, LoginError, MqsparkError

OK: Final = 0
FAILED: Final = 1
"""The job failed, or a part of its work was refused."""
USAGE: Final = 2
"""Unknown job or option, a missing or bad value."""
NO_CONNECTION: Final = 3
"""The broker could not be reached, or it refused the credentials."""
FINDINGS: Final = 4
"""The job did its work and has findings, such as lost messages in an audit."""
INTERRUPTED: Final = 130
"""Ctrl-C."""

_IN_SPARK = re.compile(r"mqspark\.errors\.(\w+): (.+)")


class JobError(MqsparkError):
    """A job cannot do its work; the text is one sentence for the user."""


def status_of(error: BaseException) -> int:
    """The exit status for an error of a job."""
    found = _IN_SPARK.findall(str(error))
    kind = type(error).__name__ if isinstance(error, MqsparkError) else found[-1][0] if found else ""
    if kind in (BrokerUnreachableError.__name__, LoginError.__name__):
        return NO_CONNECTION
    return USAGE if kind == BadOptionError.__name__ else FAILED


def sentence_of(error: BaseException) -> str:
    """The sentence to print about an error: that of mqspark, also where Spark has wrapped it into traces of workers and the JVM."""
    text = str(error)
    if isinstance(error, MqsparkError):
        return text
    found = _IN_SPARK.findall(text)
    if found:
        return str(found[-1][1]).strip()
    first = next((line.strip() for line in text.splitlines() if line.strip()), type(error).__name__)
    return f"Spark: {first}"
