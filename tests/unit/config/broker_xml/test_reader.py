"""Placeholders, inclusions, and XML that must not be read."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.parse import ConfigurationError, Loaded, load_configuration

HEAD = '<configuration xmlns="urn:activemq" xmlns:xi="http://www.w3.org/2001/XInclude"><core xmlns="urn:activemq:core">'
TAIL = "</core></configuration>"


class FilesTestCase(SynchronousTestCase):
    """Reads from a dictionary of files."""

    def load(self, files: dict[str, str | bytes], **properties: str) -> Loaded:
        self.read: list[str] = []

        def read_file(path: str) -> bytes:
            self.read.append(path)
            try:
                content = files[path]
            except KeyError:
                raise FileNotFoundError(2, "No such file", path) from None
            return content.encode() if isinstance(content, str) else content

        return load_configuration("/etc/broker.xml", read_file, properties)

    def problems(self, files: dict[str, str | bytes], **properties: str) -> list[str]:
        return [str(problem) for problem in self.assertRaises(ConfigurationError, self.load, files, **properties).problems]


class IncludeTests(FilesTestCase):
    SETTINGS = (
        '<address-settings xmlns="urn:activemq:core">\n<address-setting match="#"><dead-letter-address>${d:DLQ}</dead-letter-address>'
        "</address-setting></address-settings>"
    )

    def including(self, href: str, more: str = "") -> str:
        return HEAD + f'\n<xi:include href="{href}"{more}/>' + TAIL

    def test_included_file(self) -> None:
        for href in (
            "settings.xml",
            "./settings.xml",
            "${s:settings}.xml",
            "/etc/settings.xml",
            "file:///etc/settings.xml",
            "sub/../settings.xml",
        ):
            with self.subTest(href=href):
                loaded = self.load({"/etc/broker.xml": self.including(href), "/etc/settings.xml": self.SETTINGS}, d="X")
                self.assertEqual(loaded.configuration.address_settings, {"#": {"dead_letter_address": "X"}})

    def test_problems_name_the_included_file(self) -> None:
        wrong = self.SETTINGS.replace("dead-letter-address", "dead-leter-address")
        found = self.problems({"/etc/broker.xml": self.including("sub/s.xml"), "/etc/sub/s.xml": wrong})
        self.assertTrue(found[0].startswith("/etc/sub/s.xml:2: "), found)

    def test_relative_to_the_including_file(self) -> None:
        core = '<name xmlns="urn:activemq:core">deep</name>'
        middle = '<xi:include xmlns:xi="http://www.w3.org/2001/XInclude" href="deep.xml"/>'
        addresses = '<addresses xmlns="urn:activemq:core">' + middle + "</addresses>"
        inner = '<address xmlns="urn:activemq:core" name="a"><multicast/></address>'
        files: dict[str, str | bytes] = {"/etc/broker.xml": self.including("sub/addresses.xml"), "/etc/sub/addresses.xml": addresses}
        loaded = self.load({**files, "/etc/sub/deep.xml": inner})
        self.assertEqual(loaded.configuration.addresses[0].name, "a")
        self.assertEqual(self.load({"/etc/broker.xml": self.including("name.xml"), "/etc/name.xml": core}).configuration.name, "deep")

    def test_nothing_outside_the_folder_is_read(self) -> None:
        for href in (
            "../passwd",
            "/passwd",
            "/etcetera/x.xml",
            "file:///passwd",
            "http://localhost/x.xml",
            "sub/../../passwd",
            "/etc",
            ".",
            "${up}",
        ):
            with self.subTest(href=href):
                found = self.problems({"/etc/broker.xml": self.including(href), "/passwd": self.SETTINGS}, up="../passwd")
                self.assertIn("may only name files in the folder", found[0])
                self.assertEqual(self.read, ["/etc/broker.xml"])

    def test_circles_depth_and_number(self) -> None:
        self.assertIn("includes itself", self.problems({"/etc/broker.xml": self.including("broker.xml")})[0])
        ring = '<addresses xmlns="urn:activemq:core"><xi:include xmlns:xi="http://www.w3.org/2001/XInclude" href="{}.xml"/></addresses>'
        files: dict[str, str | bytes] = {f"/etc/{number}.xml": ring.format(number + 1) for number in range(20)}
        self.assertIn("deep", " ".join(self.problems({"/etc/broker.xml": self.including("0.xml"), **files})))
        many = HEAD + '<xi:include href="a.xml"/>' * 300 + TAIL
        self.assertIn("more than 200 files", " ".join(self.problems({"/etc/broker.xml": many, "/etc/a.xml": self.SETTINGS})))

    def test_missing_file_and_fallback(self) -> None:
        self.assertEqual(
            self.problems({"/etc/broker.xml": self.including("x.xml")}), ["/etc/broker.xml:2: cannot read /etc/x.xml: No such file"]
        )
        fallback = HEAD + '<xi:include href="x.xml"><xi:fallback><name>instead</name></xi:fallback></xi:include>' + TAIL
        self.assertEqual(self.load({"/etc/broker.xml": fallback}).configuration.name, "instead")

    def test_only_whole_xml_files(self) -> None:
        for more in (' parse="text"', ' xpointer="a"'):
            self.assertIn(
                "whole XML files", self.problems({"/etc/broker.xml": self.including("s.xml", more), "/etc/s.xml": self.SETTINGS})[0]
            )
        self.assertIn("no attribute href", self.problems({"/etc/broker.xml": HEAD + "<xi:include/>" + TAIL})[0])
