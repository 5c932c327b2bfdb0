"""URLs of PostgreSQL as the Java driver has them."""

from __future__ import annotations

from unittest import TestCase

from mqbroker.config.model.postgresql_url import libpq_place

ONE = {"host": "h", "port": "5432", "dbname": "mq"}


class UrlTests(TestCase):
    def test_places(self) -> None:
        for text, host, port, database in (
            ("//h/mq", "h", "5432", "mq"),
            ("//h:1/mq", "h", "1", "mq"),
            ("//h1:5432,h2:5433,h3/mq", "h1,h2,h3", "5432,5433,5432", "mq"),
            ("//[::1]:6,[fe80::1]/m%20q", "::1,fe80::1", "6,5432", "m q"),
            ("///mq", "localhost", "5432", "mq"),
            ("mq", "localhost", "5432", "mq"),
        ):
            with self.subTest(text=text):
                self.assertEqual(libpq_place(text), {"host": host, "port": port, "dbname": database})

    def test_parameters(self) -> None:
        for text, expected in (
            ("user=u&password=p%26q", {"user": "u", "password": "p&q"}),
            ("targetServerType=primary", {"target_session_attrs": "read-write"}),
            ("targetServerType=any", {"target_session_attrs": "any"}),
            ("targetServerType=secondary", {"target_session_attrs": "standby"}),
            ("targetServerType=preferSecondary", {"target_session_attrs": "prefer-standby"}),
            ("ssl=true", {"sslmode": "verify-full"}),
            ("ssl", {"sslmode": "verify-full"}),
            ("ssl=false", {}),
            ("ssl=true&sslmode=require", {"sslmode": "require"}),
            (
                "sslmode=verify-ca&sslrootcert=/ca.pem&sslcert=c&sslkey=k",
                {"sslmode": "verify-ca", "sslrootcert": "/ca.pem", "sslcert": "c", "sslkey": "k"},
            ),
            ("currentSchema=a,b c", {"options": "-c search_path=a,b\\ c"}),
            ("options=-c geqo=off&currentSchema=a", {"options": "-c geqo=off -c search_path=a"}),
            ("connectTimeout=7&loginTimeout=5", {"connect_timeout": "5"}),
            ("connectTimeout=0&loginTimeout=5", {"connect_timeout": "5"}),
            ("connectTimeout=0", {}),
            ("ApplicationName=broker", {"application_name": "broker"}),
            ("prepareThreshold=0&socketTimeout=3", {}),
        ):
            with self.subTest(text=text):
                self.assertEqual(libpq_place(f"//h/mq?{text}"), ONE | expected)

    def test_what_is_wrong_is_named(self) -> None:
        for text, expected in (
            ("//h:5432", "the database is missing"),
            ("//h:x/mq", "'h:x' is no host with a port"),
            ("//h:99999/mq", "is no host with a port"),
            ("//u:secret@h/mq", "write the parameters user and password"),
            ("//u:secret/1@h/mq", "write the parameters user and password"),
            ("//h/mq?password=a&secret", "one of the parameters is not supported"),
            ("//h/mq?sslFactory=x", "the parameter sslFactory is not supported: expected one of user, password"),
            ("//h/mq?targetServerType=preferPrimary", "targetServerType=preferPrimary: expected one of any, primary"),
            ("//h/mq?sslmode=maybe", "sslmode=maybe: expected one of disable"),
            ("//h/mq?ssl=maybe", "ssl=maybe: expected one of true, false"),
            ("//h/mq?connectTimeout=soon", "connectTimeout=soon: expected seconds"),
        ):
            with self.subTest(text=text), self.assertRaises(ValueError) as raised:
                libpq_place(text)
            self.assertIn(expected, str(raised.exception))
            self.assertNotIn("secret", str(raised.exception))
