"""The options of ``twistd mqbroker``."""

from __future__ import annotations

from pathlib import Path

from twisted.python.usage import UsageError
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.imq.instance import ImqStart
from mqbroker.config.model.configuration import Configuration
from mqbroker.tap import Options, arguments_again, imq_start, makeService, set_folders
from tests.unit.config.test_parse import document


class OptionsTests(SynchronousTestCase):
    def test_a_configuration_or_an_instance(self) -> None:
        for arguments in ([], ["--config", "a", "--instance", "b"], ["--instance", "b", "--data", "d"]):
            self.assertRaises(UsageError, Options().parseOptions, arguments)

    def test_definitions_hold_for_a_configuration_too(self) -> None:
        """The definitions count as in `mqbroker check config`."""
        path = Path(self.mktemp())
        path.write_text(document("<name>${who:nobody}</name><security-enabled>false</security-enabled>"))
        options = Options()
        options.parseOptions(["--config", str(path), "-Dwho=me", "-D", "brokerconfig.globalMaxMessages=5"])
        configuration = makeService(options).broker.configuration
        self.assertEqual((configuration.name, configuration.global_max_messages), ("me", 5))

    def test_the_usage_line_names_the_command_once(self) -> None:
        self.assertEqual(Options().getSynopsis().count("mqbroker"), 0)


class ImqTests(SynchronousTestCase):
    def start(self, *arguments: str, **environment: str) -> ImqStart | None:
        options = Options()
        options.parseOptions(["--instance", "i", *arguments])
        return imq_start(options, environment)

    def test_without_such_options_the_folder_decides(self) -> None:
        self.assertIsNone(self.start())
        self.assertIsNone(self.start("--define", "name=value"))

    def test_definitions_and_options_are_properties(self) -> None:
        start = self.start("-D", "imq.a=b=c", "-Dother=1", "--imq-option", "imq.d=e", "--imq-installation", "/f")
        self.assertEqual(start, ImqStart({"imq.a": "b=c"}, {"imq.d": "e"}, "/f"))

    def test_properties_of_the_environment_come_before_options(self) -> None:
        start = self.start("--imq-option", "imq.d=e", "--imq-option", "imq.f=g", MQBROKER_IMQ_PROPERTIES='{"imq.d": "h", "imq.i": "j"}')
        self.assertEqual(start, ImqStart(options={"imq.d": "h", "imq.f": "g", "imq.i": "j"}))

    def test_what_is_done_once(self) -> None:
        start = self.start("--imq-reset", "messages", "--imq-reset", "durables", "--imq-backup", "/b", "--imq-restore", "/r")
        self.assertEqual(start, ImqStart(resets=("messages", "durables"), backup="/b", restore="/r"))

    def test_a_process_that_begins_anew_does_not_do_it_again(self) -> None:
        once = ["--imq-reset", "messages", "--imq-backup", "--imq-restore"]
        self.assertEqual(arguments_again(["python", "-m", "m", *once, "--imq-option", "a=b"]), ["python", "-m", "m", "--imq-option", "a=b"])


class FolderTests(SynchronousTestCase):
    def test_folders_take_the_place_of_those_in_broker_xml(self) -> None:
        options = Options()
        options.parseOptions(["--config", "b.xml", "--journal", "/j", "--large-messages", "l"])
        configuration = Configuration()
        bindings = configuration.bindings_directory
        set_folders(configuration, options)
        self.assertEqual(configuration.journal_directory, "/j")
        self.assertEqual(configuration.large_messages_directory, str(Path("l").absolute()))
        self.assertEqual(configuration.bindings_directory, bindings)

    def test_a_broker_xml_is_for_an_instance(self) -> None:
        self.assertRaises(UsageError, Options().parseOptions, ["--config", "a", "--broker", "b"])
