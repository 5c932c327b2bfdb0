"""Authentication with its cache, cluster credentials, permission checks, the audit log."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from twisted.internet.defer import Deferred, fail
from twisted.logger import ILogObserver, globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.config.instance.jaas import LoginModule as ModuleConfiguration
from mqbroker.config.model.configuration import DEFAULT_CLUSTER_PASSWORD, DEFAULT_CLUSTER_USER, Configuration
from mqbroker.server.security.login import Credentials, Identity, LoginBrokenError, LoginFailedError, LoginStep
from mqbroker.server.security.security import SecurityManager, Subject
from mqbroker.server.security.users import KeptUsers, KeptUsersLoginModule, PropertiesUsers
from mqclient.errors import ClusterSecurityError, MQError, SecurityError
from tests.support.clock import FakeClock

VECTORS = Path(__file__).parents[4] / "protocol-spec" / "vectors"
REMOTE = "127.0.0.1:5000"


class Threads:
    """Work that was given to a thread, done when the test says so; ``eager`` does it at once."""

    def __init__(self, eager: bool = True) -> None:
        self.eager = eager
        self.started = 0
        self._work: list[tuple[Deferred[Any], Callable[..., Any], tuple[Any, ...]]] = []

    def __call__(self, function: Callable[..., Any], *args: Any) -> Deferred[Any]:
        self.started += 1
        done: Deferred[Any] = Deferred()
        self._work.append((done, function, args))
        if self.eager:
            self.run()
        return done

    def run(self) -> None:
        work, self._work = self._work, []
        for done, function, args in work:
            try:
                result = function(*args)
            except Exception:
                done.errback()
            else:
                done.callback(result)


class Passwords:
    """A login module: a user's password is the name twice, roles as given."""

    def __init__(self, **roles: str) -> None:
        self.roles = roles
        self.broken = False

    def login(self, credentials: Credentials) -> Identity | None:
        if self.broken:
            raise LoginBrokenError("users.properties cannot be read")
        user = credentials.user
        if user == "bug":
            raise ZeroDivisionError
        if user is None or user not in self.roles or credentials.password != user * 2:
            raise LoginFailedError("wrong")
        return Identity(user, frozenset(self.roles[user].split(",")))


class SecurityTestCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = FakeClock()
        self.threads = Threads()
        self.module = Passwords(admin="amq", nobody="none")
        self.events: list[dict[str, Any]] = []
        observer = cast(ILogObserver, self.events.append)
        globalLogPublisher.addObserver(observer)
        self.addCleanup(globalLogPublisher.removeObserver, observer)

    def manager(self, configuration: Configuration | None = None, **keywords: Any) -> SecurityManager:
        steps = [LoginStep("required", self.module)]
        return SecurityManager(configuration or Configuration(), steps, self.threads, self.clock, Path.read_bytes, **keywords)  # type: ignore[arg-type]

    def outcome(self, deferred: Deferred[Subject]) -> Subject | MQError | None:
        """The result of a login; None while there is none."""
        found: list[Any] = []
        deferred.addCallbacks(found.append, lambda failure: found.append(failure.value))
        return found[0] if found else None

    def accepted(self, deferred: Deferred[Subject]) -> Subject:
        outcome = self.outcome(deferred)
        assert isinstance(outcome, Subject), outcome
        return outcome

    def refused(self, deferred: Deferred[Subject]) -> MQError:
        outcome = self.outcome(deferred)
        assert isinstance(outcome, MQError), outcome
        return outcome

    def audit(self) -> list[str]:
        return [event["log_format"].format(**event) for event in self.events if event["log_namespace"] == "mqbroker.audit"]


class AuthenticationTests(SecurityTestCase):
    def test_subject(self) -> None:
        subject = self.accepted(self.manager().authenticate("admin", "adminadmin", REMOTE, None))
        self.assertEqual((subject.name, subject.roles, subject.is_cluster_user), ("admin", frozenset({"amq"}), False))

    def test_refusals_read_like_the_recorded_ones(self) -> None:
        manager = self.manager()
        recorded = {
            error["message"]
            for file in VECTORS.glob("*/wrong-password.json")
            for error in json.loads(file.read_text(encoding="utf-8"))["expect"]["errors"]
        }
        self.assertTrue(recorded)
        mine = set()
        for text in recorded:
            remote = text.split("from ")[1].split(". ")[0]
            user = text.split("Username: ")[1].split(";")[0]
            error = self.refused(manager.authenticate(None if user == "null" else user, "wrong", remote, None))
            self.assertIsInstance(error, SecurityError)
            mine.add(str(error))
        self.assertEqual(mine, recorded)

    def test_results_are_kept_for_the_interval(self) -> None:
        manager = self.manager(Configuration(security_invalidation_interval=10_000))
        for _ in range(3):
            self.accepted(manager.authenticate("admin", "adminadmin", REMOTE))
            self.refused(manager.authenticate("admin", "wrong", REMOTE))
            self.refused(manager.authenticate("admin", None, REMOTE))
        self.assertEqual(self.threads.started, 3)
        del self.module.roles["admin"]
        self.clock.seconds += 9.9
        self.accepted(manager.authenticate("admin", "adminadmin", REMOTE))
        self.clock.seconds += 0.1
        self.refused(manager.authenticate("admin", "adminadmin", REMOTE))
        self.assertEqual((manager.authentication_successes, manager.authentication_failures), (4, 7))

    def test_nothing_is_kept_when_that_is_switched_off(self) -> None:
        for configuration in (Configuration(security_invalidation_interval=0), Configuration(authentication_cache_size=0)):
            manager = self.manager(configuration)
            started = self.threads.started
            for _ in range(3):
                self.accepted(manager.authenticate("admin", "adminadmin", REMOTE))
            self.assertEqual(self.threads.started, started + 3)

    def test_the_cache_is_bounded(self) -> None:
        manager = self.manager(Configuration(authentication_cache_size=2))
        for password in ("a", "b", "c", "b", "c", "a"):
            self.refused(manager.authenticate("admin", password, REMOTE))
        self.assertEqual(self.threads.started, 4)

    def test_logins_that_come_together_are_checked_once(self) -> None:
        self.threads.eager = False
        manager = self.manager()
        together = [manager.authenticate("admin", "adminadmin", REMOTE) for _ in range(5)]
        other = manager.authenticate("admin", "wrong", REMOTE)
        self.assertIsNone(self.outcome(other))
        self.threads.run()
        self.assertEqual([self.accepted(each).name for each in together], ["admin"] * 5)
        self.assertEqual(self.threads.started, 2)

    def test_a_result_from_before_a_change_is_not_kept(self) -> None:
        self.threads.eager = False
        manager = self.manager()
        early = manager.authenticate("admin", "adminadmin", REMOTE)
        manager.forget_logins()
        self.threads.run()
        self.accepted(early)
        manager.authenticate("admin", "adminadmin", REMOTE)
        self.assertEqual(self.threads.started, 2)

    def test_a_login_after_a_change_does_not_wait_for_a_result_from_before(self) -> None:
        """The old password was still taken after the answer to its reset."""
        self.threads.eager = False
        manager = self.manager()
        early = manager.authenticate("admin", "adminadmin", REMOTE)
        work, self.threads._work = self.threads._work, []
        del self.module.roles["admin"]
        manager.forget_logins()
        late = manager.authenticate("admin", "adminadmin", REMOTE)
        self.threads.run()
        self.refused(late)
        ((done, _, _),) = work
        done.callback(Identity("admin", frozenset()))
        self.accepted(early)
        again = manager.authenticate("admin", "adminadmin", REMOTE)
        self.refused(again)

    def test_logins_that_cannot_be_checked_are_told_once_in_ten_seconds(self) -> None:
        manager = self.manager()
        self.module.broken = True
        for _ in range(100):
            self.refused(manager.authenticate("admin", "adminadmin", REMOTE))
        for _ in range(100):
            self.refused(manager.authenticate("bug", "x", REMOTE))
        self.clock.seconds += 10
        self.refused(manager.authenticate("admin", "adminadmin", REMOTE))
        told = [event for event in self.events if "could not be checked" in str(event["log_format"])]
        self.assertEqual([event.get("more") for event in told], ["", " (199 more since the last such line)"])

    def test_bugs_of_login_modules_are_told_once_in_ten_seconds(self) -> None:
        manager = self.manager()
        for _ in range(100):
            self.refused(manager.authenticate("bug", "x", REMOTE))
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)

    def test_what_cannot_be_checked_is_refused_and_told_and_not_kept(self) -> None:
        manager = self.manager()
        self.module.broken = True
        error = self.refused(manager.authenticate("admin", "adminadmin", REMOTE))
        self.assertNotIn("users.properties", str(error))
        self.assertIn("users.properties cannot be read", str([event.get("reason") for event in self.events]))
        self.module.broken = False
        self.accepted(manager.authenticate("admin", "adminadmin", REMOTE))
        self.assertIsInstance(self.refused(manager.authenticate("bug", "x", REMOTE)), SecurityError)
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)

    def test_without_login_entry_nobody_gets_in(self) -> None:
        manager = SecurityManager(Configuration(), None, self.threads, self.clock, Path.read_bytes)  # type: ignore[arg-type]
        self.refused(manager.authenticate("admin", "adminadmin", REMOTE))
        self.assertIsNone(manager.users())

    def test_security_switched_off(self) -> None:
        manager = self.manager(Configuration(security_enabled=False))
        subject = self.accepted(manager.authenticate("anyone", "wrong", REMOTE))
        self.assertEqual((subject.name, self.threads.started), ("anyone", 0))
        manager.check(subject, "manage", "activemq.management")
        manager.check(self.accepted(manager.authenticate(None, None, REMOTE)), "send", "a", "q")

    def test_certificate_domain(self) -> None:
        names: list[str | None] = []

        class Certificates:
            def login(self, credentials: Credentials) -> Identity | None:
                names.append(credentials.certificate_name)
                return Identity("by-certificate", frozenset())

        certificate = SimpleNamespace(subject=[SimpleNamespace(oid=SimpleNamespace(dotted_string="2.5.4.3"), value="client")])
        manager = self.manager(certificate_login=[LoginStep("required", Certificates())])
        self.assertEqual(self.accepted(manager.authenticate(None, None, REMOTE, certificate)).name, "by-certificate")
        self.assertEqual(names, ["CN=client"])
        self.assertEqual(self.accepted(manager.authenticate("admin", "adminadmin", REMOTE, lambda: None)).name, "admin")
        plain = self.manager()
        self.assertIn("subject DN: CN=client", str(self.refused(plain.authenticate("x", "y", REMOTE, certificate))))

    def test_role_mapping_adds_roles(self) -> None:
        configuration = Configuration(role_mapping={"amq": frozenset({"sender", "reader"}), "other": frozenset({"x"})})
        self.assertEqual(
            self.accepted(self.manager(configuration).authenticate("admin", "adminadmin", REMOTE)).roles, {"amq", "sender", "reader"}
        )

    def test_modules_from_the_configuration(self) -> None:
        files = {"/etc/u": b"bob = pw", "/etc/r": b"amq = bob"}
        options = {"org.apache.activemq.jaas.properties.user": "u", "org.apache.activemq.jaas.properties.role": "r", "odd": "1"}
        written: dict[str, bytes] = {}
        manager = SecurityManager(
            Configuration(),
            [ModuleConfiguration("PropertiesLoginModule", "required", options)],
            self.threads,
            self.clock,
            files.__getitem__,
            Path("/etc"),
            write_file=written.__setitem__,
            entropy=bytes,
        )
        self.assertEqual(self.accepted(manager.authenticate("bob", "pw", REMOTE)).roles, {"amq"})
        self.assertIn("odd", str([event.get("text") for event in self.events]))
        users = manager.users()
        assert isinstance(users, PropertiesUsers)
        users.reset("bob", "new", None, True)
        self.assertEqual(written, {"/etc/u": b"bob = new"})

    def test_changes_of_management_count_also_without_reload(self) -> None:
        """A removed user could log in until the next start."""
        files = {"/etc/u": b"bob = pw", "/etc/r": b"amq = bob"}
        options = {"org.apache.activemq.jaas.properties.user": "u", "org.apache.activemq.jaas.properties.role": "r"}
        entry = [ModuleConfiguration("PropertiesLoginModule", "required", options)]
        manager = SecurityManager(
            Configuration(),
            entry,
            self.threads,
            self.clock,
            files.__getitem__,
            Path("/etc"),
            domains={"other": entry},
            write_file=files.__setitem__,
            entropy=bytes,
        )
        for domain in (None, "other"):
            self.accepted(manager.authenticate("bob", "pw", REMOTE, None, domain))
        users = manager.users()
        assert users is not None
        users.add("eve", "secret", "ops", True)
        users.remove("bob")
        for domain in (None, "other"):
            self.refused(manager.authenticate("bob", "pw", REMOTE, None, domain))
            self.assertEqual(self.accepted(manager.authenticate("eve", "secret", REMOTE, None, domain)).roles, {"ops"})

    def test_kept_users(self) -> None:
        kept = KeptUsers({"bob": json.dumps({"password": "pw", "roles": ["amq"]})}, self.Store(), bytes)
        self.module = KeptUsersLoginModule(kept)  # type: ignore[assignment]
        manager = self.manager()
        self.assertIs(manager.users(), kept)
        self.assertEqual(self.accepted(manager.authenticate("bob", "pw", REMOTE)).roles, {"amq"})
        kept.remove("bob")
        self.refused(manager.authenticate("bob", "pw", REMOTE))
        self.refused(manager.authenticate(None, "pw", REMOTE))

    class Store:
        def put(self, name: str, record: str) -> None:
            raise AssertionError("nothing is put")

        def delete(self, name: str) -> None:
            pass


class ClusterUserTests(SecurityTestCase):
    CONFIGURATION = Configuration(cluster_user="cluster", cluster_password="cluster-secret")

    def test_passes_every_check_with_the_right_password(self) -> None:
        manager = self.manager(self.CONFIGURATION)
        subject = self.accepted(manager.authenticate("cluster", "cluster-secret", REMOTE))
        self.assertTrue(subject.is_cluster_user)
        manager.check(subject, "manage", "activemq.management")
        self.assertEqual(self.threads.started, 0)

    def test_a_wrong_password_is_a_cluster_error(self) -> None:
        self.module.roles["cluster"] = "amq"
        for password in ("clustercluster", "", None, "cluster-secret\ud800"):
            error = self.refused(self.manager(self.CONFIGURATION).authenticate("cluster", password, REMOTE))
            self.assertIsInstance(error, ClusterSecurityError)
            self.assertIn("AMQ229099", str(error))

    def test_default_password_counts_only_in_a_cluster(self) -> None:
        for configuration in (Configuration(), Configuration(cluster_user="renamed")):
            user = configuration.cluster_user
            error = self.refused(self.manager(configuration).authenticate(user, DEFAULT_CLUSTER_PASSWORD, REMOTE))
            self.assertIn("AMQ229031", str(error))
            self.accepted(self.manager(configuration, clustered=True).authenticate(user, DEFAULT_CLUSTER_PASSWORD, REMOTE))
        changed = Configuration(cluster_password="changed")
        self.accepted(self.manager(changed).authenticate(DEFAULT_CLUSTER_USER, "changed", REMOTE))


class DeferredsTests(SecurityTestCase):
    def test_a_thread_pool_that_fails(self) -> None:
        """The pool itself refuses the work: that is a refused login, not a client that waits for ever."""
        manager = SecurityManager(Configuration(), [], lambda function, *args: fail(RuntimeError("stopped")), self.clock, Path.read_bytes)  # type: ignore[arg-type]
        self.refused(manager.authenticate("a", "b", REMOTE))
        self.assertEqual(len(self.flushLoggedErrors(RuntimeError)), 1)
