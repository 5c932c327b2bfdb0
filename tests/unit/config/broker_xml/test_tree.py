"""XML that must not be read, and where a mistake in it stands."""

from __future__ import annotations

from mqbroker.config.parse import parse_configuration
from tests.unit.config.broker_xml.test_reader import HEAD, TAIL, FilesTestCase


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
