"""The broker of -b, the password, the frame of a command, questions and failures."""

from __future__ import annotations

import json
import os
import socket
from unittest import mock

from mqbroker.cli.imq import target
from mqbroker.cli.management import ManagementError
from mqbroker.cli.status import NoConnection
from mqbroker.config.masking import KEY_VARIABLE, encode_masked, wrap
from tests.unit.cli.imq.support import CommandCase
from tests.unit.cli.runner import mqbroker


class TargetTests(CommandCase):
    def test_the_connection(self) -> None:
        self.answer(listDurables=[])
        self.good("list", "dur", "-u", "bob")
        [options] = self.opened
        self.assertEqual((options.url, options.user, options.password), ("tcp://somewhere:7700", "bob", "secret"))
        self.good("list", "dur", "-secure")
        self.assertEqual(self.opened[1].url, "tcp://somewhere:7700?sslEnabled=true&trustAll=true&verifyHost=false")

    def test_the_password_may_be_masked(self) -> None:
        self.answer(listDurables=[])
        self.passfile.write_text(f"imq.imqcmd.password={wrap(encode_masked('hidden'))}\n")
        self.good("list", "dur")
        self.assertEqual(self.opened[0].password, "hidden")
        self.passfile.write_text("imq.imqcmd.password=ENC(1)\n")
        self.assertIn("the password in the passfile cannot be read", self.bad("list", "dur"))

    def test_it_is_masked_as_mask_does_it(self) -> None:
        self.answer(listDurables=[])
        self.patch(os, "environ", {**os.environ, KEY_VARIABLE: "own"})
        self.passfile.write_text(f"imq.imqcmd.password={wrap(encode_masked('hidden', 'own'))}\n")
        self.good("list", "dur")
        self.assertEqual(self.opened[0].password, "hidden")

    def test_a_passfile_that_cannot_be_used(self) -> None:
        self.passfile.write_text("other=1")
        self.assertIn("has no imq.imqcmd.password", self.bad("list", "dur"))
        self.passfile.unlink()
        self.assertIn("Failed to read password in passfile:", self.bad("list", "dur"))

    def test_without_a_passfile_the_password_is_asked_for(self) -> None:
        with (
            mock.patch("mqbroker.cli.management.management", self.broker.opened),
            mock.patch("click.prompt", lambda *_, **__: "typed") as _,
        ):
            self.answer(listDurables=[])
            self.assertEqual(mqbroker("imq", "list", "dur").status, 0)

    def test_a_place_that_is_none(self) -> None:
        result = mqbroker("imq", "list", "dur", "-b", "a:b")
        self.assertEqual((result.status, result.err), (1, "Error: the broker 'a:b' is not valid: expected host:port\n"))

    def test_a_refusal_of_the_broker(self) -> None:
        self.answer(listDurables=ManagementError("no such topic"))
        self.assertEqual(
            self.bad("list", "dur"),
            "Error while performing this operation on the broker.\nno such topic\n\nListing subscriptions failed.\n",
        )

    def test_a_broker_that_cannot_be_reached(self) -> None:
        self.answer(listDurables=NoConnection("refused"))
        err = self.bad("list", "dur")
        self.assertTrue(err.startswith("Error while connecting to the broker on host 'somewhere' and port '7700'.\nrefused\n"), err)
        self.assertTrue(err.endswith("Listing subscriptions failed.\n"))

    def test_questions(self) -> None:
        command = ("quiesce", "bkr")
        for word in ("y", "YES"):
            self.assertIn("Successfully quiesced the broker.", self.good(*command, say=word))
        self.assertEqual(len(self.broker.asked), 2)
        for word in ("n", "No", ""):
            self.assertTrue(self.good(*command, say=word).endswith("\nThe broker was not quiesced.\n"))
        self.assertEqual(self.bad(*command, say="perhaps"), "Unrecognized response: perhaps.\nThe broker was not quiesced.\n")
        self.assertEqual(len(self.broker.asked), 2)

    def test_without_an_answer_nothing_is_done(self) -> None:
        self.assertEqual(self.bad("quiesce", "bkr"), "There is no answer: nothing was done.\n")
        self.assertEqual(self.broker.asked, [])

    def test_with_json_there_is_nothing_else(self) -> None:
        self.answer(listDurables=[])
        self.assertEqual(json.loads(self.good("list", "dur", "--json")), [])
        self.assertEqual(self.good("quiesce", "bkr", "-f", "--json"), "")

    def test_a_silent_command_prints_nothing_but_errors(self) -> None:
        self.answer(listDurables=[])
        for words in (("list", "dur", "-s"), ("quiesce", "bkr", "-f", "-s")):
            self.assertEqual(self.good(*words), "")
        self.answer(listDurables=ManagementError("no such topic"))
        self.assertIn("no such topic", self.bad("list", "dur", "-s"))

    def test_options_of_imqcmd_without_effect(self) -> None:
        self.answer(listDurables=[])
        self.good("list", "dur", "-DimqSSLIsTrusted=true", "-rtm", "10", "-rtr", "2", "-javahome", "/j", "-varhome", "/v", "-verbose")

    def test_attributes_have_a_name_and_a_value(self) -> None:
        self.assertIn("the attribute 'a' is not valid: expected name=value", self.bad("update", "bkr", "-o", "a"))


class WaitTests(CommandCase):
    def test_waiting_for_a_place(self) -> None:
        listening = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listening.close)
        here = target.Target(f"127.0.0.1:{listening.getsockname()[1]}", "admin", None, True, False, False)
        here.wait(there=True, failed="Failed.")
        with mock.patch.object(target, "WAIT_SECONDS", 0.0), self.assertRaises(target.CommandError) as caught:
            here.wait(there=False, failed="Failed.")
        self.assertIn("still listens after 0 s.\n\nFailed.", str(caught.exception))
        listening.close()
        here.wait(there=False, failed="Failed.")
