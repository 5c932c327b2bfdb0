"""Users in properties files, whose comments and order stay, and users kept by the broker."""

from __future__ import annotations

import json
from unittest import TestCase

from hypothesis import given
from hypothesis import strategies as st

from mqbroker.config.masking import verify_password
from mqbroker.config.properties.properties import parse_properties
from mqbroker.server.security.login import Credentials, LoginFailedError
from mqbroker.server.security.users import KeptUsers, KeptUsersLoginModule, PropertiesText, PropertiesUsers, UserError

USERS = b"""# the users
admin = secret
! another comment
bob: \\
   pass\\
   word

zoe=x"""
ROLES = b"# roles\r\namq = admin,bob\r\naudit = bob\r\nghost = nobody\r\n"


class Files:
    def __init__(self) -> None:
        self.contents: dict[str, bytes] = {"users": USERS, "roles": ROLES}
        self.writes: list[str] = []
        self.fail_on: str | None = None

    def read(self, path: str) -> bytes:
        if path not in self.contents:
            raise FileNotFoundError(2, "No such file or directory")
        return self.contents[path]

    def write(self, path: str, contents: bytes) -> None:
        if path == self.fail_on:
            raise PermissionError(13, "Permission denied")
        self.writes.append(path)
        self.contents[path] = contents


class PropertiesUsersTests(TestCase):
    def setUp(self) -> None:
        self.files = Files()
        self.changes = 0

        def changed() -> None:
            self.changes += 1

        self.users = PropertiesUsers("users", "roles", self.files.read, self.files.write, bytes, changed)

    def error(self, call: str, *arguments: object) -> str:
        before = dict(self.files.contents)
        with self.assertRaises(UserError) as caught:
            getattr(self.users, call)(*arguments)
        self.assertEqual(self.files.contents, before)
        self.assertEqual(self.changes, 0)
        return str(caught.exception)

    def entry(self, file: str, key: str) -> str | None:
        return {entry.key: entry.value for entry in parse_properties(self.files.contents[file])}.get(key)

    def test_list(self) -> None:
        self.assertEqual(
            self.users.list(),
            [
                {"username": "admin", "roles": ["amq"]},
                {"username": "bob", "roles": ["amq", "audit"]},
                {"username": "zoe", "roles": []},
            ],
        )
        self.assertEqual(self.users.list(""), self.users.list(None))
        self.assertEqual(self.users.list("zoe"), [{"username": "zoe", "roles": []}])
        json.dumps(self.users.list())
        self.assertIn("AMQ229224", self.error("list", "eve"))

    def test_add_keeps_every_other_byte(self) -> None:
        self.users.add("eve", "pw", "amq, new,amq")
        self.assertTrue(self.files.contents["users"].startswith(USERS + b"\neve = ENC(1024:"))
        stored = self.entry("users", "eve")
        assert stored is not None
        self.assertTrue(verify_password("pw", stored))
        self.assertEqual(self.files.contents["roles"], ROLES.replace(b"admin,bob", b"admin,bob,eve") + b"new = eve\n")
        self.assertEqual(self.files.writes, ["roles", "users"])
        self.assertEqual(self.changes, 1)

    def test_add_plaintext(self) -> None:
        self.users.add("eve", "p w#=ö\\", "", True)
        self.assertIn(b"eve = p w#=\\u00f6\\\\\n", self.files.contents["users"])
        self.assertEqual(self.entry("users", "eve"), "p w#=ö\\")
        self.assertEqual(self.files.writes, ["users"])

    def test_remove(self) -> None:
        self.users.remove("bob")
        self.assertEqual(self.files.contents["users"], b"# the users\nadmin = secret\n! another comment\n\nzoe=x")
        self.assertEqual(self.files.contents["roles"], b"# roles\r\namq = admin\r\nghost = nobody\r\n")
        self.assertEqual(self.files.writes, ["users", "roles"])

    def test_reset(self) -> None:
        self.users.reset("bob", "new", None, True)
        self.assertEqual(self.files.contents["users"], USERS.replace(b"bob: \\\n   pass\\\n   word", b"bob = new"))
        self.assertEqual(self.files.contents["roles"], ROLES)
        self.users.reset("bob", "", "audit,ops")
        self.assertEqual(self.entry("users", "bob"), "new")
        self.assertEqual(self.users.list("bob"), [{"username": "bob", "roles": ["audit", "ops"]}])
        self.users.reset("zoe", None, "")
        self.assertEqual(self.users.list("zoe"), [{"username": "zoe", "roles": []}])

    def test_names_that_need_escapes(self) -> None:
        for name in ("a b", "a=b", "a:b", "#a", "!a", "a\\b", "jörg", "😀"):
            self.users.add(name, "pw", "the role", True)
            self.assertEqual(self.entry("users", name), "pw")
            self.assertEqual(self.users.list(name), [{"username": name, "roles": ["the role"]}])
        self.assertTrue(self.files.contents["users"].isascii())
        for name in ("a b", "a=b", "a:b", "#a", "!a", "a\\b", "jörg", "😀"):
            self.users.remove(name)
        self.assertEqual(self.files.contents["users"], USERS + b"\n")

    def test_refused(self) -> None:
        self.assertEqual(self.error("add", "bob", "x", "amq"), "AMQ229223: User bob already exists")
        self.assertEqual(self.error("remove", "eve"), "AMQ229224: User eve does not exist")
        self.assertEqual(self.error("reset", "eve", "x", None), "AMQ229224: User eve does not exist")
        for name in ("", " a", "a,b", "a\nb", "\ud800"):
            self.assertIn("name of a user", self.error("add", name, "x", "amq"))
        self.assertIn("name of a role", self.error("add", "eve", "x", "a\tb"))
        self.assertIn("empty", self.error("add", "eve", "", "amq"))
        self.assertIn("not text", self.error("add", "eve", "\ud800", "amq"))
        self.assertIn("as a hash", self.error("add", "eve", "ENC(x)", "amq", True))
        self.assertIn("as a hash", self.error("add", "eve", " x", "amq", True))

    def test_files_that_fail(self) -> None:
        self.files.fail_on = "roles"
        self.assertIn("roles cannot be written: Permission denied", self.error("add", "eve", "x", "amq"))
        del self.files.contents["roles"]
        self.assertIn("roles cannot be read", self.error("remove", "bob"))

    def test_a_change_of_which_only_half_is_written_counts(self) -> None:
        """The removed user was remembered as logged in."""
        self.files.fail_on = "roles"
        with self.assertRaisesRegex(UserError, "roles cannot be written"):
            self.users.remove("bob")
        self.assertIsNone(self.entry("users", "bob"))
        self.assertEqual(self.changes, 1)

    def test_old_encoding_stays(self) -> None:
        self.files.contents["users"] = "# für alle\nbob = grün\n".encode("iso-8859-1")
        self.users.add("eve", "x", "", True)
        self.assertEqual(self.files.contents["users"], "# für alle\nbob = grün\neve = x\n".encode("iso-8859-1"))


class PropertiesTextTests(TestCase):
    LINES = st.lists(
        st.sampled_from(["# c", "a=1", "b : 2", "a = 3", "", "  ", "c\\", " x", "\\# d = 4", "! e\\", "f\\ g=5\\\\"]), max_size=8
    )

    @given(LINES, st.sampled_from(["\n", "\r\n", "\r"]), st.booleans())
    def test_unchanged_text_stays(self, lines: list[str], end: str, ended: bool) -> None:
        text = end.join(lines) + (end if ended else "")
        self.assertEqual(PropertiesText(text).encoded().decode(), text)
        self.assertFalse(PropertiesText(text).modified)

    @given(
        LINES,
        st.sampled_from(["\n", "\r\n"]),
        st.text(st.characters(codec="utf-8"), min_size=1, max_size=5),
        st.text(st.characters(codec="utf-8"), max_size=5),
    )
    def test_only_the_entry_changes(self, lines: list[str], end: str, key: str, value: str) -> None:
        """What a reader of the file sees: the one key has its new value, every other entry is as it was."""
        before = {entry.key: entry.value for entry in parse_properties(end.join(lines))}
        text = PropertiesText(end.join(lines))
        text.put(key, value)
        after = {entry.key: entry.value for entry in parse_properties(text.encoded())}
        self.assertEqual(after, before | {key: value})
        text.remove(key)
        before.pop(key, None)
        self.assertEqual({entry.key: entry.value for entry in parse_properties(text.encoded())}, before)


class KeptUsersTests(TestCase):
    def setUp(self) -> None:
        self.records: dict[str, str] = {}
        self.puts = 0
        self.users = self.load()

    def put(self, name: str, record: str) -> None:
        self.puts += 1
        self.records[name] = record

    def delete(self, name: str) -> None:
        del self.records[name]

    def load(self) -> KeptUsers:
        return KeptUsers(dict(self.records), self, bytes)

    def roles(self, users: KeptUsers, name: str | None, password: str | None) -> frozenset[str] | None:
        try:
            identity = KeptUsersLoginModule(users).login(Credentials(name, password))
        except LoginFailedError:
            return None
        assert identity is not None
        return identity.roles

    def test_changes_survive(self) -> None:
        self.users.add("bob", "pw", "amq,ops")
        self.users.add("eve", "plain", "", True)
        self.users.reset("eve", None, "ops")
        self.assertNotIn("pw", self.records["bob"].replace("password", ""))
        again = self.load()
        self.assertEqual(self.roles(again, "bob", "pw"), {"amq", "ops"})
        self.assertEqual(self.roles(again, "eve", "plain"), {"ops"})
        self.assertEqual(again.list(), [{"username": "bob", "roles": ["amq", "ops"]}, {"username": "eve", "roles": ["ops"]}])
        again.reset("bob", "new", None)
        again.remove("eve")
        self.assertIsNone(self.roles(again, "bob", "pw"))
        self.assertEqual(self.roles(self.load(), "bob", "new"), {"amq", "ops"})
        self.assertEqual(list(self.records), ["bob"])

    def test_refused(self) -> None:
        self.users.add("bob", "pw", "amq")
        for call in (
            lambda: self.users.add("bob", "x", ""),
            lambda: self.users.add("a,b", "x", ""),
            lambda: self.users.remove("eve"),
            lambda: self.users.reset("eve", "x", None),
            lambda: self.users.list("eve"),
        ):
            with self.assertRaises(UserError):
                call()
        self.assertIsNone(self.roles(self.users, None, "pw"))
        self.assertIsNone(self.roles(self.users, "eve", "pw"))
        self.assertIsNone(self.roles(self.users, "bob", "x"))

    def test_bootstrap_user_is_there_at_every_start(self) -> None:
        self.users.bootstrap("admin", "pw", "amq")
        self.assertEqual(self.roles(self.users, "admin", "pw"), {"amq"})
        again = self.load()
        again.bootstrap("admin", "pw", "amq")
        self.assertEqual(self.puts, 1)
        again.bootstrap("admin", "other", "amq")
        self.assertEqual(self.roles(self.load(), "admin", "other"), {"amq"})
        hashed = json.loads(self.records["admin"])["password"]
        again.remove("admin")
        again.bootstrap("admin", hashed, "amq")
        self.assertEqual(self.roles(again, "admin", "other"), {"amq"})

    def test_changes_are_told(self) -> None:
        told: list[int] = []
        self.users.changed = lambda: told.append(1)
        self.users.add("bob", "pw", "amq")
        self.users.reset("bob", None, None)
        self.users.reset("bob", None, "ops")
        self.users.remove("bob")
        self.assertEqual(len(told), 3)
