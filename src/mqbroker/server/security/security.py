"""Authentication and authorization (Artemis manual, "Authentication & Authorization").

A login may read files and compute a hash, and so runs in a thread; its result is kept for ``security-invalidation-interval``.  A permission
check is synchronous.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from twisted.internet.defer import Deferred, succeed
from twisted.logger import Logger
from twisted.python.failure import Failure

from mqbroker.config.instance.jaas import LoginModule as ModuleConfiguration
from mqbroker.config.model.configuration import DEFAULT_CLUSTER_PASSWORD, Configuration
from mqbroker.config.model.matching import SecurityRepository
from mqbroker.messaging.event import Event
from mqbroker.messaging.ports import Clock
from mqbroker.server.security.audit import AuditLog, more_such
from mqbroker.server.security.certificates import subject_name
from mqbroker.server.security.login import (
    Credentials,
    Identity,
    LoginBrokenError,
    LoginFailedError,
    LoginStep,
    PropertiesLoginModule,
    ReadFile,
    TextFileCertificateLoginModule,
    log_in,
    login_steps,
)
from mqbroker.server.security.users import KeptUsersLoginModule, PropertiesUsers, UserAdministration, WriteFile
from mqclient.errors import ClusterSecurityError, SecurityError

REPORTED_MAX: Final = 1000
"""Kinds of audit events that are counted separately, so that each kind is logged once per interval."""

REPORT_INTERVAL_SECONDS: Final = 10.0

REPORTED_LINES_MAX: Final = 50
"""Lines about refused logins, lines about denials, and lines about logins that cannot be checked, in ten seconds each.  The sum is limited
because clients choose the names that tell events apart."""

log = Logger(namespace="mqbroker.security")

_CacheKey = tuple[str | None, bytes | None, str | None, str | None]
_HUMP: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")


class DeferToThread(Protocol):
    def __call__(self, function: Callable[..., Any], *args: Any) -> Deferred[Any]: ...


class Subject:
    """A logged-in user.  ``name`` is None for a login without a user name; the cluster user passes every check."""

    __slots__ = ("is_cluster_user", "name", "roles")

    def __init__(self, name: str | None, roles: frozenset[str] = frozenset(), is_cluster_user: bool = False) -> None:
        self.name = name
        self.roles = roles
        self.is_cluster_user = is_cluster_user

    def __repr__(self) -> str:
        return f"Subject({self.name!r}, {sorted(self.roles)})"


class _Refusal(NamedTuple):
    """A login that failed.  ``broken``: no module could decide; ``cluster``: a login of the cluster user with a wrong password."""

    reason: str
    broken: bool = False
    cluster: bool = False


_Outcome: TypeAlias = Subject | _Refusal


class _Repeats:
    """Lets each kind of event through once per interval, and counts the repetitions."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seen: dict[tuple[str | None, ...], list[float]] = {}
        self._lines: dict[str | None, list[float]] = {}
        """By kind: the end of the present interval, the lines written in it, and the lines left out since the last line."""

    def due(self, *event: str | None) -> int | None:
        """The number of events of this kind left out since the last line; None: leave this event out, too."""
        now = self._clock.monotonic()
        seen = self._seen.get(event)
        if seen is not None and now < seen[0]:
            seen[1] += 1
            return None
        left_out = 0
        if event[0] != "accepted":
            lines = self._lines.get(event[0])
            if lines is None or now >= lines[0]:
                lines = self._lines[event[0]] = [now + REPORT_INTERVAL_SECONDS, 0, 0 if lines is None else lines[2]]
            if lines[1] >= REPORTED_LINES_MAX:
                lines[2] += 1
                return None
            lines[1] += 1
            left_out, lines[2] = int(lines[2]), 0
        if len(self._seen) >= REPORTED_MAX:
            self._seen.clear()
        self._seen[event] = [now + REPORT_INTERVAL_SECONDS, 0]
        return left_out if seen is None else left_out + int(seen[1])


class SecurityManager:
    """Authenticates users by login modules and checks permissions by the security settings.

    ``login`` is the entry for user names and passwords: configured modules, or steps that are built already; None refuses all users but the
    cluster user.  ``certificate_login``, when given, is for clients that show a certificate; ``domains`` are the entries that single
    acceptors name (``securityDomain``).  ``folder`` is where the files of the modules are.  ``clustered`` says whether a cluster connection
    is configured.  ``write_file`` and ``entropy`` (returns that many random bytes) let management change the users in these files.  Raises
    ConfigurationError for modules that cannot be used.

    The counters are shown by metrics and management.
    """

    def __init__(
        self,
        configuration: Configuration,
        login: Sequence[ModuleConfiguration | LoginStep] | None,
        defer_to_thread: DeferToThread,
        clock: Clock,
        read_file: ReadFile,
        folder: object = "",
        *,
        certificate_login: Sequence[ModuleConfiguration | LoginStep] | None = None,
        domains: Mapping[str, Sequence[ModuleConfiguration | LoginStep]] | None = None,
        repository: SecurityRepository | None = None,
        clustered: bool = False,
        audit: AuditLog | None = None,
        write_file: WriteFile | None = None,
        entropy: Callable[[int], bytes] | None = None,
    ) -> None:
        self.enabled = configuration.security_enabled
        self.repository = repository or configuration.security_repository()
        self.denied: Event[str, str, str | None] = Event()
        """Address, permission and user of each denial."""
        self.authentication_successes = 0
        self.authentication_failures = 0
        self.authorization_successes = 0
        self.authorization_failures = 0
        self._configuration = configuration
        self._clustered = clustered
        self._defer_to_thread = defer_to_thread
        self._clock = clock
        self._audit = audit or AuditLog()
        self._read_file = read_file
        self._write_file = write_file
        self._entropy = entropy
        self._login = _steps(login, str(folder), read_file)
        self._certificate_login = None if certificate_login is None else _steps(certificate_login, str(folder), read_file)
        self._domains = {name: _steps(modules, str(folder), read_file) for name, modules in (domains or {}).items()}
        self._logins: dict[_CacheKey, tuple[float, _Outcome]] = {}
        self._generation = 0
        self._waiting: dict[tuple[int, _CacheKey], list[Deferred[_Outcome]]] = {}
        """Logins that wait for one result, by the generation in which the login modules were asked."""
        self._allowed: dict[tuple[frozenset[str], str, str], bool] = {}
        self._allowed_version = self.repository.version
        self._repeats = _Repeats(clock)
        for _, module in self._login:
            if isinstance(module, KeptUsersLoginModule):
                module.users.changed.subscribe(self.forget_logins)

    @property
    def version(self) -> int:
        """Changes with the security settings, which makes remembered checks void."""
        return self.repository.version

    # --- authentication

    def authenticate(
        self, user: str | None, password: str | None, remote: str, certificate: object = None, domain: str | None = None
    ) -> Deferred[Subject]:
        """Log a client in; the result is its subject.

        ``remote`` is ``host:port``; ``certificate`` is an argument for :func:`~mqbroker.server.security.certificates.subject_name`.

        ``domain`` is one of ``domains``, whose entry then holds for every client; None: the broker's own entries.

        Fails with SecurityError (AMQ229031), for the cluster user with a wrong password with ClusterSecurityError.
        """
        if not self.enabled:
            return succeed(Subject(user))
        credentials = Credentials(user, password, subject_name(certificate))
        if user is not None and user == self._configuration.cluster_user:
            checking: Deferred[_Outcome] = succeed(self._check_cluster_user(user, password))
        else:
            checking = self._check_login(credentials, domain)
        return checking.addCallback(self._decide, credentials, remote)

    def takes_anonymous(self, domain: str | None) -> bool:
        """Can a client log in without user, password and certificate?  Asks the login modules at once, without a thread.

        ``domain`` is as in :meth:`authenticate`.
        """
        if not self.enabled:
            return True
        try:
            log_in(self._login if domain is None else self._domains[domain], Credentials(None, None))
        except LoginFailedError:
            return False
        return True

    def forget_logins(self) -> None:
        """Forget all results: later logins ask the login modules again."""
        self._logins.clear()
        self._generation += 1

    def users(self) -> UserAdministration | None:
        """The users, where management can change them: in properties files, if they can be written, or kept by the broker itself."""
        for _, module in self._login:
            if isinstance(module, KeptUsersLoginModule):
                return module.users
            if isinstance(module, PropertiesLoginModule) and self._write_file is not None and self._entropy is not None:
                return PropertiesUsers(
                    module.users.path, module.roles.path, self._read_file, self._write_file, self._entropy, self._files_changed
                )
        return None

    def _files_changed(self) -> None:
        """Management has changed users: all entries of login.config read their files again, also without ``reload``."""
        for _, module in chain(self._login, self._certificate_login or (), *self._domains.values()):
            if isinstance(module, (PropertiesLoginModule, TextFileCertificateLoginModule)):
                module.users.changed()
                module.roles.changed()
        self.forget_logins()

    def _check_cluster_user(self, user: str, password: str | None) -> _Outcome:
        expected = self._configuration.cluster_password
        if expected == DEFAULT_CLUSTER_PASSWORD and not self._clustered:
            # The default password is public, and without a cluster no client needs it.
            return _Refusal("the cluster password is the built-in default and there is no cluster")
        if password is None or not hmac.compare_digest(_bytes(password), _bytes(expected)):
            return _Refusal("the cluster password is wrong", cluster=True)
        return Subject(user, is_cluster_user=True)

    def _decide(self, outcome: _Outcome, credentials: Credentials, remote: str) -> Subject:
        user, _, certificate_name = credentials
        host = remote.rpartition(":")[0]
        if isinstance(outcome, Subject):
            self.authentication_successes += 1
            left_out = self._repeats.due("accepted", user, host, certificate_name)
            if left_out is not None:
                self._audit.logged_in(outcome, remote, certificate_name, left_out)
            return outcome
        self.authentication_failures += 1
        left_out = self._repeats.due("refused", user, host, certificate_name, outcome.reason)
        if left_out is not None:
            self._audit.login_refused(user, remote, certificate_name, outcome.reason, left_out)
        if outcome.cluster:
            raise ClusterSecurityError(f"AMQ229099: Unable to authenticate cluster user: {user}")
        raise SecurityError(
            f"AMQ229031: Unable to validate user from {remote}. Username: {'null' if user is None else user};"
            f" SSL certificate subject DN: {certificate_name or 'unavailable'}"
        )

    def _check_login(self, credentials: Credentials, domain: str | None) -> Deferred[_Outcome]:
        """The result of the login modules, which several clients may wait for together."""
        password = credentials.password
        digest = None if password is None else hashlib.sha256(_bytes(password)).digest()
        key = credentials.user, digest, credentials.certificate_name, domain
        known = self._logins.get(key)
        if known is not None and self._clock.monotonic() < known[0]:
            return succeed(known[1])
        result: Deferred[_Outcome] = Deferred()
        generation = self._generation
        waiting = self._waiting.get((generation, key))
        if waiting is not None:
            waiting.append(result)
            return result
        self._waiting[generation, key] = [result]
        steps = self._login if credentials.certificate_name is None or self._certificate_login is None else self._certificate_login
        if domain is not None:
            steps = self._domains[domain]
        checking = self._defer_to_thread(log_in, steps, credentials)
        checking.addCallback(self._subject).addErrback(self._failure).addCallback(self._checked, key, generation)
        return result

    def _subject(self, identity: Identity) -> Subject:
        mapping = self._configuration.role_mapping
        return Subject(identity.user, identity.roles.union(*(mapping.get(role, frozenset()) for role in identity.roles)))

    def _failure(self, failure: Failure) -> _Refusal:
        error = failure.value
        if isinstance(error, LoginBrokenError):
            left_out = self._repeats.due("broken", str(error))
            if left_out is not None:
                log.error("a login could not be checked: {reason}{more}", reason=str(error), more=more_such(left_out))
            return _Refusal(str(error), broken=True)
        if isinstance(error, LoginFailedError):
            return _Refusal(str(error))
        left_out = self._repeats.due("failed", type(error).__name__)
        if left_out is not None:
            log.failure("a login could not be checked{more}", failure=failure, more=more_such(left_out))
        return _Refusal("the login could not be checked", broken=True)

    def _checked(self, outcome: _Outcome, key: _CacheKey, generation: int) -> None:
        size = self._configuration.authentication_cache_size
        interval = self._configuration.security_invalidation_interval / 1000
        broken = isinstance(outcome, _Refusal) and outcome.broken
        if size > 0 and interval > 0 and generation == self._generation and not broken:
            self._logins.pop(key, None)
            while len(self._logins) >= size:
                del self._logins[next(iter(self._logins))]
            self._logins[key] = self._clock.monotonic() + interval, outcome
        for waiting in self._waiting.pop((generation, key)):
            waiting.callback(outcome)

    # --- permissions

    def check(self, subject: Subject, permission: str, address: str, queue: str | None = None) -> None:
        """May ``subject`` do this?  ``permission`` is a permission type (``send``, ``createAddress``, …).

        Raises SecurityError: AMQ229032, or AMQ229213 for a permission on a queue.
        """
        if not self.enabled or subject.is_cluster_user:
            return
        if self.allows(subject.roles, permission, address, queue):
            self.authorization_successes += 1
            return
        self.authorization_failures += 1
        kind = _HUMP.sub("_", permission).upper()
        left_out = self._repeats.due("denied", subject.name, kind, address, queue)
        if left_out is not None:
            self._audit.denied(subject, kind, address, queue, left_out)
        self.denied(address, kind, subject.name)
        user = "null" if subject.name is None else subject.name
        if queue is None:
            raise SecurityError(f"AMQ229032: User: {user} does not have permission='{kind}' on address {address}")
        raise SecurityError(f"AMQ229213: User: {user} does not have permission='{kind}' for queue {queue} on address {address}")

    def allows(self, roles: frozenset[str], permission: str, address: str, queue: str | None = None) -> bool:
        """Has one of ``roles`` this permission?  Reports and counts nothing."""
        if self._allowed_version != self.repository.version:
            self._allowed.clear()
            self._allowed_version = self.repository.version
        name = address if queue is None else f"{address}::{queue}"
        key = roles, permission, name
        allowed = self._allowed.get(key)
        if allowed is None:
            allowed = not roles.isdisjoint(self.repository.lookup(name).get(permission, ()))
            size = self._configuration.authorization_cache_size
            if size > 0:
                if len(self._allowed) >= size:
                    self._allowed.clear()
                self._allowed[key] = allowed
        return allowed

    @property
    def authentication_cache_size(self) -> int:
        """Logins that are remembered."""
        return len(self._logins)

    @property
    def authorization_cache_size(self) -> int:
        """Decisions about permissions that are remembered."""
        return len(self._allowed)

    def forget_permissions(self) -> None:
        """Decide about permissions anew."""
        self._allowed.clear()


def _steps(login: Iterable[ModuleConfiguration | LoginStep] | None, folder: str, read_file: ReadFile) -> list[LoginStep]:
    steps: list[LoginStep] = []
    for entry in login or ():
        if isinstance(entry, LoginStep):
            steps.append(entry)
        else:
            built, warnings = login_steps([entry], folder, read_file)
            steps += built
            for warning in warnings:
                log.warn("{text}", text=warning)
    return steps


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
