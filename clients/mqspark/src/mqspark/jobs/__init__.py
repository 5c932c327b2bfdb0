"""The jobs of mqspark: each is a command, ``python -m mqspark JOB``, and a function of its module
(``mqspark.jobs.archive.archive`` and so on).

A job's module has three parts: functions that plan (no Spark, no broker: tested alone), the function that does the work with a Spark
session that is handed in, and the command, made with :func:`job_command`, that opens the session and prints the :class:`Report`.  The
common parts of all jobs are here:

===================================  ====================================================================================================
:mod:`mqspark.jobs.command`          options that the commands share, errors as one sentence, exit statuses
:mod:`mqspark.jobs.report`           the answer of a job: tables, notes, an exit status
:mod:`mqspark.jobs.progress`         the progress of a job
:mod:`mqspark.jobs.session`          the Spark session of a command, with Spark's own settings
:mod:`mqspark.jobs.status`           the exit statuses
===================================  ====================================================================================================
"""

from __future__ import annotations

from mqspark.jobs.command import Run, job_command
from mqspark.jobs.progress import NoProgress, Progress
from mqspark.jobs.report import Report, Table
from mqspark.jobs.session import SparkSettings
from mqspark.jobs.status import JobError

__all__ = ["JobError", "NoProgress", "Progress", "Report", "Run", "SparkSettings", "Table", "job_command"]
