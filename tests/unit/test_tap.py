"""The options of ``twistd mqbroker``."""

from __future__ import annotations

from pathlib import Path

from twisted.python.usage import UsageError
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.model.configuration import Configuration
from mqbroker.tap import Options, set_folders


class OptionsTests(SynchronousTestCase):
    def test_a_configuration_or_an_instance(self) -> None:
        for arguments in ([], ["--config", "a", "--instance", "b"], ["--instance", "b", "--data", "d"]):
            self.assertRaises(UsageError, Options().parseOptions, arguments)

    def test_the_usage_line_names_the_command_once(self) -> None:
        self.assertEqual(Options().getSynopsis().count("mqbroker"), 0)


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
