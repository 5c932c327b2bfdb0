"""Placeholders, inclusions, and XML that must not be read."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.parse import ConfigurationError, Loaded, load_configuration, parse_configuration
from mqbroker.config.properties.substitution import SubstitutionError, substitute

HEAD = '<configuration xmlns="urn:activemq" xmlns:xi="http://www.w3.org/2001/XInclude"><core xmlns="urn:activemq:core">'
TAIL = "</core></configuration>"


class SubstitutionTests(SynchronousTestCase):
    def replaced(self, text: str, **properties: str) -> str:
        self.missing: list[str] = []
        return substitute(text, properties, self.missing.append)

    def test_values_and_defaults(self) -> None:
        self.assertEqual(self.replaced("a ${x} b ${y:2}", x="1"), "a 1 b 2")
        self.assertEqual(self.replaced("tcp://${host:localhost}:${port:61616}", port="1"), "tcp://localhost:1")
        self.assertEqual(self.replaced("${x:a:b}"), "a:b")
        self.assertEqual(self.replaced("${x:}"), "")
        self.assertEqual(self.missing, [])

    def test_inside_each_other(self) -> None:
        self.assertEqual(self.replaced("${a:${b:c}}"), "c")
        self.assertEqual(self.replaced("${a:${b:c}}", b="d"), "d")
        self.assertEqual(self.replaced("${a:${b:c}}", a="e"), "e")
        self.assertEqual(self.replaced("${a}", a="${b}", b="f"), "f")
        self.assertEqual(self.replaced("${${a}}", a="b", b="g"), "g")

    def test_missing_is_empty_and_told(self) -> None:
        self.assertEqual(self.replaced("[${x}]"), "[]")
        self.assertEqual(self.missing, ["x"])

    def test_circles_and_open_ends(self) -> None:
        for properties in ({"a": "${a}"}, {"a": "${b}", "b": "x${a}"}, {"a": "${a}${a}"}):
            self.assertRaises(SubstitutionError, self.replaced, "${a}", **properties)
        self.assertRaises(SubstitutionError, self.replaced, "${a")

    def test_growth_is_bounded(self) -> None:
        self.assertRaises(SubstitutionError, self.replaced, "${a}", a="${b}" * 900, b="x" * 100000)


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


class XmlTests(FilesTestCase):
    def test_placeholders_in_texts_and_attributes(self) -> None:
        text = HEAD + "<name>${n}</name><acceptors><acceptor name='${a:x}'>tcp://h:${p}</acceptor></acceptors>" + TAIL
        loaded = self.load({"/etc/broker.xml": text}, n=" broker ", p="7")
        acceptor = loaded.configuration.acceptors[0]
        self.assertEqual((loaded.configuration.name, acceptor.name, acceptor.port), ("broker", "x", 7))

    def test_a_value_never_becomes_markup(self) -> None:
        loaded = self.load(
            {"/etc/broker.xml": HEAD + "<name>${n}</name>" + TAIL}, n="</name><security-enabled>false</security-enabled><name>&"
        )
        self.assertTrue(loaded.configuration.security_enabled)
        self.assertIn("<security-enabled>", loaded.configuration.name)

    def test_an_empty_placeholder_is_a_warning(self) -> None:
        loaded = self.load({"/etc/broker.xml": HEAD + "\n<cluster-password>${p}</cluster-password><!-- ${q} -->" + TAIL})
        self.assertEqual([str(each) for each in loaded.warnings], ["/etc/broker.xml:2: ${p} has no value and no default: it is empty"])

    def test_broken_placeholder(self) -> None:
        self.assertIn("/etc/broker.xml:2: '${' without '}'", self.problems({"/etc/broker.xml": HEAD + "\n<name>${p</name>" + TAIL})[0])

    def test_not_well_formed(self) -> None:
        for text, line in (("", 1), (HEAD + "\n<name>x</nam>" + TAIL, 2), ("text", 1), (HEAD, 1)):
            with self.subTest(text=text[-20:]):
                self.assertTrue(
                    self.problems({"/etc/broker.xml": text})[0].startswith(f"/etc/broker.xml:{line}: this is not well-formed XML")
                )

    def test_missing_file(self) -> None:
        self.assertEqual(self.problems({}), ["/etc/broker.xml: cannot read /etc/broker.xml: No such file"])

    def test_document_types_and_entities(self) -> None:
        bomb = "<!DOCTYPE c [<!ENTITY a 'aaaaaaaaaa'><!ENTITY b '&a;&a;&a;&a;&a;&a;&a;&a;'><!ENTITY c '&b;&b;&b;&b;&b;&b;&b;'>]>"
        outside = "<!DOCTYPE c [<!ENTITY c SYSTEM 'file:///etc/passwd'>]>"
        for doctype in (bomb, outside, "<!DOCTYPE c SYSTEM 'http://localhost:1/c.dtd'>"):
            with self.subTest(doctype=doctype[:40]):
                found = self.problems({"/etc/broker.xml": doctype + HEAD + "<name>&c;</name>" + TAIL})
                self.assertEqual(len(found), 1)
                self.assertNotIn("root:", found[0])

    def test_encodings(self) -> None:
        text = '<?xml version="1.0" encoding="ISO-8859-1"?>' + HEAD + "<name>M\xfcller</name>" + TAIL
        self.assertEqual(self.load({"/etc/broker.xml": text.encode("latin-1")}).configuration.name, "Müller")
        self.assertEqual(parse_configuration(text).configuration.name, "Müller")

    def test_very_deep_files_are_refused(self) -> None:
        self.assertIn("not well-formed", self.problems({"/etc/broker.xml": HEAD + "<a>" * 5000 + "</a>" * 5000 + TAIL})[0])

    def test_large_files_are_refused(self) -> None:
        self.assertIn("larger than", self.problems({"/etc/broker.xml": b" " * (17 << 20)})[0])


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
