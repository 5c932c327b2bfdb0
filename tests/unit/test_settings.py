"""What a broker is made of, read from files."""

from __future__ import annotations

from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.problems import ConfigurationError
from mqbroker.settings import settings_from_file
from mqbroker.tap import property_files

BROKER = """<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core"><name>x</name>
<security-enabled>false</security-enabled><addresses><address name="a"><anycast><queue name="q">
<filter string="FILTER"/></queue></anycast></address></addresses></core></configuration>"""


class SettingsTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.folder = Path(self.mktemp())
        self.folder.mkdir()

    def write(self, name: str, text: str) -> str:
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return str(path)

    def test_properties_files_and_folders_override_in_their_order(self) -> None:
        broker = self.write("broker.xml", BROKER.replace("FILTER", "a = 1"))
        first = self.write("first.properties", "name=first\nglobalMaxMessages=7\n")
        self.write("more/b.properties", "name=last\n")
        self.write("more/a.properties", "name=middle\n")
        self.write("more/readme.txt", "not one of them")
        files = property_files(f"{first},{self.folder}/more/")
        configuration = settings_from_file(Path(broker), self.folder, files, {}).configuration
        self.assertEqual((configuration.name, configuration.global_max_messages), ("last", 7))
        self.assertEqual(property_files(None), [])

    def test_a_filter_that_cannot_be_read_stops_the_start_with_its_line(self) -> None:
        broker = self.write("broker.xml", BROKER.replace("FILTER", "a ="))
        problem = self.assertRaises(ConfigurationError, settings_from_file, Path(broker), self.folder, [], {})
        self.assertEqual((problem.line, problem.text[:26]), (3, "filter: AMQ229020: Invalid"))

    def test_a_filter_in_a_properties_file(self) -> None:
        broker = self.write("broker.xml", BROKER.replace("FILTER", "a = 1"))
        key = "addressConfigurations.a.queueConfigs.q.filterString"
        properties = self.write("p.properties", f"name=x\n{key}=b =\n")
        problem = self.assertRaises(ConfigurationError, settings_from_file, Path(broker), self.folder, [properties], {})
        self.assertEqual((problem.file, problem.line), (properties, 2))
