"""Exit statuses of jobs, and their sentences for errors."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqspark.jobs.status import sentence_of, status_of


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
