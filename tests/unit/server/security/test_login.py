"""Login modules, their chains, certificates."""

from __future__ import annotations

from unittest import TestCase

from mqbroker.config.instance.jaas import LoginModule as ModuleConfiguration
from mqbroker.config.instance.jaas import parse_login_config
from mqbroker.config.masking import hash_password
from mqbroker.config.problems import ConfigurationError
from mqbroker.server.security.login import (
    Credentials,
    GuestLoginModule,
    Identity,
    LoginBrokenError,
    LoginFailedError,
    LoginStep,
    log_in,
    login_steps,
)


class Fixed:
    """A module with a known answer, which counts how often it was asked."""

    def __init__(self, answer: Identity | str | None) -> None:
        self.answer = answer
        self.asked = 0

    def login(self, credentials: Credentials) -> Identity | None:
        self.asked += 1
        if isinstance(self.answer, str):
            raise LoginFailedError(self.answer)
        return self.answer


def someone(name: str, *roles: str) -> Identity:
    return Identity(name, frozenset(roles))


class ChainTests(TestCase):
    def run_chain(self, *steps: tuple[str, Identity | str | None]) -> tuple[Identity | str, list[int]]:
        modules = [Fixed(answer) for _, answer in steps]
        try:
            result: Identity | str = log_in(
                [LoginStep(flag, module) for (flag, _), module in zip(steps, modules, strict=True)], Credentials("u", "p")
            )
        except LoginFailedError as error:
            result = str(error)
        return result, [module.asked for module in modules]

    def test_flags(self) -> None:
        """(steps, result, which modules were asked): the rules of JAAS."""
        a, b = someone("a", "x"), someone("b", "y")
        both = someone("a", "x", "y")
        for steps, result, asked in (
            ((("required", a), ("required", b)), both, [1, 1]),
            ((("required", "no"), ("required", b)), "no", [1, 1]),
            ((("required", a), ("required", "no")), "no", [1, 1]),
            ((("requisite", "no"), ("required", b)), "no", [1, 0]),
            ((("requisite", a), ("required", b)), both, [1, 1]),
            ((("sufficient", a), ("required", b)), a, [1, 0]),
            ((("sufficient", "no"), ("required", b)), b, [1, 1]),
            ((("sufficient", "no"), ("sufficient", b)), b, [1, 1]),
            ((("sufficient", "no"), ("sufficient", "neither")), "no", [1, 1]),
            ((("required", "no"), ("sufficient", b), ("optional", a)), "no", [1, 1, 1]),
            ((("required", a), ("sufficient", b), ("required", "no")), both, [1, 1, 0]),
            ((("optional", "no"), ("optional", b)), b, [1, 1]),
            ((("optional", "no"),), "no", [1]),
            ((("required", a), ("optional", "no")), a, [1, 1]),
            ((("sufficient", None), ("optional", b)), b, [1, 1]),
            ((("required", None),), "no login module takes this kind of login", [1]),
            ((), "no login module takes this kind of login", []),
        ):
            with self.subTest(steps):
                self.assertEqual(self.run_chain(*steps), (result, asked))

    def test_first_name_wins(self) -> None:
        self.assertEqual(self.run_chain(("required", Identity(None, frozenset("r"))), ("required", someone("b")))[0], someone("b", "r"))


class Files:
    """An etc folder in memory."""

    def __init__(self, **contents: bytes | str) -> None:
        self.contents: dict[str, bytes | str] = {f"/etc/{name}.properties": text for name, text in contents.items()}
        self.reads = 0

    def read(self, path: str) -> bytes | str:
        self.reads += 1
        if path not in self.contents:
            raise FileNotFoundError(2, "No such file or directory", path)
        return self.contents[path]


PROPERTIES = "org.apache.activemq.artemis.spi.core.security.jaas.PropertiesLoginModule"
OPTIONS = {
    "org.apache.activemq.jaas.properties.user": "users.properties",
    "org.apache.activemq.jaas.properties.role": "roles.properties",
}


class PropertiesModuleTests(TestCase):
    def setUp(self) -> None:
        self.files = Files(
            users=f"# comment\nadmin = {hash_password('secret', bytes(32))}\nbob: plain=pass\ncolon\\:name=x\nkaputt = ENC(zz)\nempty=\n",
            roles="amq = admin,bob\naudit=bob\nblanks = admin, bob\nghosts = nobody\n",
        )

    def log_in(self, user: str | None, password: str | None, **options: str) -> Identity:
        steps, warnings = login_steps([ModuleConfiguration(PROPERTIES, "required", OPTIONS | options)], "/etc", self.files.read)
        self.assertEqual(warnings, [])
        self.steps = steps
        return log_in(steps, Credentials(user, password))

    def refused(self, user: str | None, password: str | None) -> str:
        with self.assertRaises(LoginFailedError) as caught:
            self.log_in(user, password)
        return str(caught.exception)

    def test_hashed_and_plain(self) -> None:
        self.assertEqual(self.log_in("admin", "secret"), someone("admin", "amq", "blanks"))
        self.assertEqual(self.log_in("bob", "plain=pass"), someone("bob", "amq", "audit"))
        self.assertEqual(self.log_in("colon:name", "x"), someone("colon:name"))

    def test_refused(self) -> None:
        self.assertIn("password", self.refused("admin", "Secret"))
        self.assertIn("password", self.refused("admin", None))
        self.assertIn("password", self.refused("bob", "plain=pas\ud800"))
        self.assertIn("no such user", self.refused("eve", "secret"))
        self.assertIn("no user name", self.refused(None, None))

    def test_what_an_operator_must_repair(self) -> None:
        self.assertIn("damaged", self.refused("kaputt", "x"))
        self.files.contents["/etc/roles.properties"] = "a = \\uXYZ"
        self.assertIn("/etc/roles.properties: line 1", self.refused("admin", "secret"))
        del self.files.contents["/etc/users.properties"]
        with self.assertRaises(LoginBrokenError) as caught:
            self.log_in("admin", "secret")
        self.assertEqual(str(caught.exception), "/etc/users.properties cannot be read: No such file or directory")

    def test_reload(self) -> None:
        for reload, expected in (("true", "new"), ("TRUE", "new"), ("false", "old"), ("", "old")):
            self.files.contents["/etc/users.properties"] = "bob = old"
            self.log_in("bob", "old", reload=reload)
            self.files.contents["/etc/users.properties"] = "bob = new"
            self.assertEqual(log_in(self.steps, Credentials("bob", expected)).user, "bob")

    def test_reload_fails_closed(self) -> None:
        self.log_in("bob", "plain=pass", reload="true")
        del self.files.contents["/etc/roles.properties"]
        with self.assertRaises(LoginBrokenError):
            log_in(self.steps, Credentials("bob", "plain=pass"))

    def test_base_directory(self) -> None:
        self.files.contents["/elsewhere/users.properties"] = "bob = other"
        self.files.contents["/elsewhere/roles.properties"] = ""
        self.assertEqual(self.log_in("bob", "other", baseDir="/elsewhere"), someone("bob"))

    def test_bytes_in_either_encoding(self) -> None:
        for encoding in ("utf-8", "iso-8859-1"):
            self.files.contents["/etc/users.properties"] = "jörg = pä".encode(encoding)
            self.assertEqual(self.log_in("jörg", "pä").user, "jörg")


class ConfigurationTests(TestCase):
    def steps(self, text: str) -> tuple[list[LoginStep], list[str]]:
        return login_steps(parse_login_config(text)["activemq"], "/etc", Files().read)

    def problem(self, text: str) -> str:
        with self.assertRaises(ConfigurationError) as caught:
            self.steps(text)
        return str(caught.exception)

    def test_guest(self) -> None:
        steps, _ = self.steps(
            "activemq { a.b.GuestLoginModule sufficient"
            ' org.apache.activemq.jaas.guest.user="g" org.apache.activemq.jaas.guest.role="r1,r2"; };'
        )
        self.assertEqual(log_in(steps, Credentials("who", "pw")), someone("g", "r1", "r2"))
        self.assertEqual(log_in([LoginStep("optional", GuestLoginModule())], Credentials(None, None)), someone("guest", "guests"))

    def test_guest_without_credentials_only(self) -> None:
        steps, _ = self.steps("activemq { GuestLoginModule required credentialsInvalidate=true; };")
        self.assertEqual(log_in(steps, Credentials("x", None)).user, "guest")
        with self.assertRaises(LoginFailedError):
            log_in(steps, Credentials("x", "y"))

    def test_modules_that_there_are_not(self) -> None:
        text = self.problem("activemq {\n  org.apache.activemq.artemis.spi.core.security.jaas.LDAPLoginModule required;\n};")
        self.assertIn("login.config:2: ", text)
        self.assertIn("LDAPLoginModule is not supported: expected PropertiesLoginModule, GuestLoginModule", text)

    def test_missing_file_option(self) -> None:
        text = self.problem('activemq { PropertiesLoginModule required org.apache.activemq.jaas.properties.user="u"; };')
        self.assertIn("expected the option org.apache.activemq.jaas.properties.role", text)

    def test_unknown_option_is_told(self) -> None:
        _, warnings = self.steps("activemq { GuestLoginModule required debug=true credentialInvalidate=true; };")
        self.assertEqual(len(warnings), 1)
        self.assertIn("credentialInvalidate has no effect; known: credentialsInvalidate", warnings[0])
