"""What a merge prints."""

from __future__ import annotations

import contextlib
import io

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.cli.data.merge.comparison import CONSUMED_OR_NEW, Comparison, compare
from mqbroker.cli.data.merge.report import Report
from mqbroker.cli.data.merge.sending import Plan, Sendable
from tests.unit.cli.data.merge.support import KEPT, Pair


class ReportTests(SynchronousTestCase):
    def setUp(self) -> None:
        pair = Pair()
        (queue,) = pair.start("q")
        self.old = pair.kept.add(queue)
        pair.kept.add(queue)
        pair.split()
        for _ in range(2):
            pair.kept.add(queue)
        pair.kept.acknowledge(queue, self.old)
        pair.running.acknowledge(queue, pair.running.recovered[self.old.message_id])
        self.split = pair.read()
        self.comparison: Comparison = compare(self.split.kept, self.split.running, self.split.common)
        first, second = self.comparison.missing
        self.plan = Plan([Sendable(first, {"a": [1]}, b"x")], [Sendable(second, {"a": [1]}, b"y")])

    def text(self, sent: int | None = None, verbose: bool = False) -> str:
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            Report(KEPT, self.split, self.comparison, self.plan, False, sent).print(verbose)
        return out.getvalue()

    def test_a_dry_run_says_what_would_be_sent(self) -> None:
        text = self.text()
        self.assertIn(f"MISSING message {self.comparison.missing[0].message_id} on q: 4 bytes", text)
        self.assertIn("Dry run: 1 messages would be sent", text)
        self.assertIn("Already there, by their duplicate ids: 1 messages", text)
        self.assertNotIn("not complete", text)
        self.assertIn("sent 1 messages", self.text(sent=1))

    def test_details(self) -> None:
        text = self.text(verbose=True)
        self.assertIn(f"CONSUMED IN BOTH from q: {self.old.message_id}\n", text)
        self.assertIn("ALREADY THERE message", text)

    def test_what_is_not_sure_is_named_with_its_reason(self) -> None:
        self.split.common.whole = False
        self.comparison.undecided = self.comparison.missing
        found = self.comparison.undecided[0]
        self.comparison.undecided = [type(found)(found.message_id, found.record, found.queues, CONSUMED_OR_NEW)]
        text = self.text()
        self.assertIn("not complete", text)
        self.assertIn(f"UNDECIDED message {found.message_id} on q: 4 bytes: {CONSUMED_OR_NEW}", text)
        self.assertIn("--include-undecided", text)

    def test_json(self) -> None:
        found = Report(KEPT, self.split, self.comparison, self.plan, False, 1).as_json()
        self.assertEqual(found["consumed"], {"q": {"both": [self.old.message_id], "onlyKept": 0, "onlyRunning": 0}})
        self.assertEqual([len(found[name]) for name in ("missing", "alreadyThere")], [1, 1])
        self.assertEqual((found["sent"], found["commonPart"]), (1, True))
