"""The layers of properties: the highest one that has a property counts."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from tests.unit.config.imq.support import CENTRAL, INSTALLATION, PROPERTIES, Made

NAME = "imq.cluster.consumerFlowLimit"
URL = f"imq.cluster.url=file:{CENTRAL}\n"


class PrecedenceTests(SynchronousTestCase):
    def test_from_low_to_high(self) -> None:
        files: dict[str, str] = {}
        made = Made(URL, files={CENTRAL: ""})
        self.assertEqual((made.text(NAME), made.origin(NAME)), ("1000", "default"))
        files[INSTALLATION] = f"# the machine's\n{NAME}=1\n"
        files[CENTRAL] = ""
        made = Made(URL, files=files)
        self.assertEqual((made.text(NAME), made.origin(NAME)), ("1", f"installation ({INSTALLATION}:2)"))
        files[CENTRAL] = f"{NAME}=2\n"
        made = Made(URL, files=files)
        self.assertEqual((made.text(NAME), made.origin(NAME)), ("2", f"cluster file ({CENTRAL}:1)"))
        made = Made(f"{URL}{NAME} = 3 ", files=files)
        self.assertEqual((made.text(NAME), made.origin(NAME)), ("3", f"instance ({PROPERTIES}:2)"))
        made = Made(f"{URL}{NAME}=3", files=files, definitions={NAME: "4"})
        self.assertEqual((made.text(NAME), made.origin(NAME), made.home.consumer_flow_limit), ("4", "-D", 4))
        made = Made(f"{URL}{NAME}=3", files=files, definitions={NAME: "4"}, options={NAME: "5"})
        self.assertEqual((made.text(NAME), made.origin(NAME)), ("5", "command line"))

    def test_what_the_command_line_gives(self) -> None:
        """Of the master a broker has to know it, for it cannot be changed then."""
        name = "imq.cluster.masterbroker"
        for sources, given in (({}, False), ({"definitions": {name: "b"}}, True), ({"options": {name: "b"}}, True)):
            made = Made(f"{name}=b", **sources)  # type: ignore[arg-type]
            self.assertEqual(made.home.master_from_command_line, given)
        self.assertFalse(Made("").home.master_from_command_line)

    def test_the_url_itself_follows_the_same_order(self) -> None:
        other = "/etc/imq/other.properties"
        files = {CENTRAL: f"{NAME}=2", other: f"{NAME}=3"}
        self.assertEqual(Made(URL, files=files, definitions={"imq.cluster.url": f"file://{other}"}).text(NAME), "3")
        self.assertEqual(Made("", files=files | {INSTALLATION: URL}).text(NAME), "2")

    def test_values_name_other_properties_and_the_folders(self) -> None:
        made = Made(
            f"imq.cluster.url=file:${{imq.etchome}}/c.properties\n{NAME}=${{my.limit}}\nmy.limit=7",
            files={"/var/imq/instances/b1/etc/c.properties": ""},
        )
        self.assertEqual(made.text(NAME), "7")
        self.assertEqual(made.text("imq.instancename"), "b1")
        self.assertIn(f"{PROPERTIES}:3: my.limit is no property of Open Message Queue and has no effect", made.warnings)


class CentralFileTests(SynchronousTestCase):
    def test_one_that_cannot_be_read_stops_the_start(self) -> None:
        self.assertEqual(Made(URL).errors, [f"{CENTRAL}: cannot read the cluster file: No such file or directory"])

    def test_only_files_are_read(self) -> None:
        [error] = Made("imq.cluster.url=http://host/cluster.properties").errors
        self.assertIn("only files can be read; expected file:/path", error)
        [error] = Made("imq.cluster.url=file://host/cluster.properties").errors
        self.assertIn("the file is on the host host", error)

    def test_a_damaged_file_is_named_with_its_line(self) -> None:
        self.assertEqual(Made(URL, files={CENTRAL: "a=\\u12"}).errors, [f"{CENTRAL}:1: \\u12: expected four hexadecimal digits"])

    def test_a_circle_of_values_is_an_error(self) -> None:
        [error] = Made("imq.hostname=${imq.hostname}").errors
        self.assertIn("imq.hostname: the placeholders lead in a circle", error)

    def test_without_a_value_a_placeholder_is_empty_and_told(self) -> None:
        made = Made("imq.hostname=${nothing}")
        self.assertEqual(made.warnings, [f"{PROPERTIES}:1: imq.hostname: ${{nothing}} has no value: it is empty"])
