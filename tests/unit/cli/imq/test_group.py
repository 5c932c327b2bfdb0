"""The tree of commands, and its two exit statuses."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from tests.unit.cli.runner import mqbroker

WORDS = """brokerd|list bkr|list dst|list dur|query bkr|query dst|update bkr|update dst|create dst|destroy dst|destroy dur|purge dst
|quiesce bkr|unquiesce bkr|shutdown bkr|restart bkr|reload cls|changemaster cls"""


class GroupTests(SynchronousTestCase):
    def test_every_command_has_help_with_an_example(self) -> None:
        for words in WORDS.replace("\n", "").split("|"):
            result = mqbroker("imq", *words.split(), "--help")
            self.assertEqual((result.status, result.err), (0, ""), words)
            self.assertIn(f"Example: mqbroker imq {words}", result.out)

    def test_wrong_words_and_options_end_with_1(self) -> None:
        for words in (["list", "nothing"], ["frobnicate"], ["list", "dst", "-x"], ["shutdown", "bkr", "-time", "soon"]):
            result = mqbroker("imq", *words)
            self.assertEqual((result.status, result.out), (1, ""), words)
            self.assertTrue(result.err.startswith("Error: "), result.err)
        self.assertIn("Did you mean 'list'?", mqbroker("imq", "lst").err)

    def test_without_a_word_the_commands_are_shown(self) -> None:
        result = mqbroker("imq", "list")
        self.assertIn("List durable subscriptions.", result.out + result.err)
