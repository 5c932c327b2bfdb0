"""URLs of databases."""

from __future__ import annotations

from unittest import TestCase

from mqbroker.config.model.database import DatabaseStoreConfiguration


class UrlTests(TestCase):
    def test_what_can_be_used(self) -> None:
        for url in (
            "jdbc:sqlite:data/x.db",
            "jdbc:postgresql://h/mq",
            "jdbc:PostgreSQL://h:1/mq?sslmode=require",
            "jdbc:postgresql://h:1,i:2/mq",
        ):
            self.assertIsNone(DatabaseStoreConfiguration(url).problem())

    def test_what_cannot_is_named(self) -> None:
        for url, expected in (
            ("jdbc:derby:/x;create=true", "Derby.*jdbc:sqlite:"),
            ("jdbc:oracle:thin:@h:1521:x", "oracle is not supported"),
            ("postgresql://h/x", "no such URL"),
            ("jdbc:sqlite:", "needs the name of a file"),
            ("jdbc:sqlite::memory:", "nothing would be kept"),
            ("jdbc:postgresql://h:5432", "the database is missing; expected jdbc:sqlite"),
            ("jdbc:postgresql://h/mq?sslFactory=x", "the parameter sslFactory is not supported"),
            ("jdbc:postgresql://h:x/mq", "is no host with a port"),
        ):
            with self.subTest(url=url):
                self.assertRegex(DatabaseStoreConfiguration(url).problem() or "", expected)

    def test_brokers_are_told_apart_by_the_table_of_their_messages(self) -> None:
        for name, expected in (("MESSAGES", ""), ("messages", ""), ("Orders_Messages", "table ORDERS_MESSAGES")):
            self.assertEqual(DatabaseStoreConfiguration("jdbc:sqlite:x", message_table=name).broker, expected)

    def test_a_password_is_not_shown(self) -> None:
        self.assertNotIn("secret", repr(DatabaseStoreConfiguration("jdbc:postgresql://h/mq", "u", "secret")))
