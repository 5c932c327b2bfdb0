"""Login modules and how they are chained, as the JAAS entries of a ``login.config`` say (Artemis manual, "Authentication & Authorization").

A chain runs in a thread: modules read files and compute hashes.  The files read are the only state of a module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import PurePath
from typing import Final, NamedTuple, Protocol

from mqbroker.config.instance.jaas import LoginModule as ModuleConfiguration
from mqbroker.config.masking import MaskingError, verify_password
from mqbroker.config.problems import ConfigurationError, Problem
from mqbroker.config.properties.properties import PropertiesError, parse_properties
from mqbroker.server.security.certificates import NamePattern
from mqclient.text import nearest_name

ReadFile = Callable[[str], bytes | str]
"""The contents of a file by its path; raises OSError."""


class Credentials(NamedTuple):
    """The credentials of a client.  ``certificate_name`` is the distinguished name in its certificate, None without a certificate."""

    user: str | None
    password: str | None
    certificate_name: str | None = None


class Identity(NamedTuple):
    user: str | None
    roles: frozenset[str]


class LoginFailedError(Exception):
    """The login is refused.  The text is for the log; the client is not told the reason."""


class LoginBrokenError(LoginFailedError):
    """The login is refused because a module cannot do its work, which an operator has to know."""


class LoginModule(Protocol):
    def login(self, credentials: Credentials) -> Identity | None:
        """The user and roles; None when the module does not take such credentials.  Raises LoginFailedError.  Runs in a thread."""


class LoginStep(NamedTuple):
    """A module in a chain, with its JAAS flag."""

    flag: str
    module: LoginModule


def log_in(steps: Sequence[LoginStep], credentials: Credentials) -> Identity:
    """Run the chain by the rules of JAAS.

    All *required* and *requisite* modules must succeed, and a requisite one that fails ends it at once; a *sufficient* one that succeeds
    ends it with success, unless a required one has failed; without required and requisite modules one of the others must succeed.
    Raises :class:`LoginFailedError`.
    """
    found: list[Identity] = []
    required_failure: LoginFailedError | None = None
    other_failure: LoginFailedError | None = None
    for flag, module in steps:
        try:
            identity = module.login(credentials)
        except LoginFailedError as error:
            if flag in ("required", "requisite"):
                required_failure = required_failure or error
            else:
                other_failure = other_failure or error
            if flag == "requisite":
                break
            continue
        if identity is not None:
            found.append(identity)
            if flag == "sufficient" and required_failure is None:
                break
    if required_failure is not None:
        raise required_failure
    if not found:
        raise other_failure or LoginFailedError("no login module takes this kind of login")
    user = next((identity.user for identity in found if identity.user is not None), None)
    return Identity(user, frozenset().union(*(identity.roles for identity in found)))


class PropertiesFile:
    """A properties file that is read again when it has changed (``reload``), or only once, and when the broker itself has changed it."""

    def __init__(self, path: str, read_file: ReadFile, reload: bool) -> None:
        self.path = path
        self._read_file = read_file
        self._reload = reload
        self._changes = 0
        self._loaded: tuple[int, bytes | str, dict[str, str]] | None = None
        """The number of changes that were known before the file was read, its contents and its entries."""

    def changed(self) -> None:
        """The broker has changed the file: what was read before, or is being read in a thread, does not count any more."""
        self._changes += 1

    def entries(self) -> dict[str, str]:
        """The values by key.  Raises :class:`LoginBrokenError` when the file cannot be read: its older contents must not let users in."""
        changes, loaded = self._changes, self._loaded
        if loaded is None or loaded[0] != changes or self._reload:
            try:
                contents = self._read_file(self.path)
                if loaded is None or loaded[1] != contents:
                    loaded = changes, contents, {entry.key: entry.value for entry in parse_properties(contents)}
            except OSError as error:
                raise LoginBrokenError(f"{self.path} cannot be read: {error.strerror or error}") from error
            except (PropertiesError, UnicodeError) as error:
                raise LoginBrokenError(f"{self.path}: {error}") from error
            self._loaded = loaded = changes, *loaded[1:]
        return loaded[2]


def _roles_of(user: str, roles: Mapping[str, str]) -> frozenset[str]:
    """The roles whose list of users, separated by commas without blanks, names ``user``."""
    return frozenset(role for role, users in roles.items() if user in users.split(","))


class PropertiesLoginModule:
    """Users with plain or hashed passwords in a users file, and the users of each role in a roles file."""

    def __init__(self, users: PropertiesFile, roles: PropertiesFile) -> None:
        self.users = users
        self.roles = roles

    def check(self) -> None:
        """Raises LoginBrokenError when a file is missing or damaged, so that every login would fail."""
        self.users.entries()
        self.roles.entries()

    def login(self, credentials: Credentials) -> Identity | None:
        user = credentials.user
        if user is None:
            raise LoginFailedError("no user name was given")
        stored = self.users.entries().get(user)
        if stored is None:
            raise LoginFailedError("there is no such user")
        check_password(credentials.password, stored, self.users.path)
        return Identity(user, _roles_of(user, self.roles.entries()))


def check_password(password: str | None, stored: str, place: str) -> None:
    """Raises LoginFailedError unless ``password`` is the password in ``stored``, which is plain or hashed."""
    try:
        right = verify_password(password or "", stored)
    except MaskingError as error:
        raise LoginBrokenError(f"{place}: the password of a user is damaged: {error}") from error
    except UnicodeEncodeError:
        right = False  # half a surrogate pair, which no file can hold
    if not right:
        raise LoginFailedError("the password is wrong")


class GuestLoginModule:
    """Logs every client in as the guest; with ``credentials_invalidate`` only clients without a password."""

    def __init__(self, user: str = "guest", roles: frozenset[str] = frozenset({"guests"}), credentials_invalidate: bool = False) -> None:
        self._identity = Identity(user, roles)
        self._credentials_invalidate = credentials_invalidate

    def login(self, credentials: Credentials) -> Identity | None:
        if self._credentials_invalidate and credentials.password is not None:
            return None
        return self._identity


class TextFileCertificateLoginModule:
    """Users by the distinguished name in their certificate: a file of ``user = name`` or ``user = /expression/``, and a roles file."""

    def __init__(self, users: PropertiesFile, roles: PropertiesFile) -> None:
        self.users = users
        self.roles = roles

    def check(self) -> None:
        """Raises LoginBrokenError when a file is missing or damaged, so that every login would fail."""
        self.roles.entries()
        for user, pattern in self.users.entries().items():
            self._pattern(user, pattern)

    def _pattern(self, user: str, text: str) -> NamePattern:
        try:
            return NamePattern(text)
        except ValueError as error:
            raise LoginBrokenError(f"{self.users.path}: user {user}: {error}") from error

    def login(self, credentials: Credentials) -> Identity | None:
        name = credentials.certificate_name
        if name is None:
            raise LoginFailedError("there is no client certificate")
        for user, pattern in self.users.entries().items():
            if self._pattern(user, pattern).matches(name):
                return Identity(user, _roles_of(user, self.roles.entries()))
        raise LoginFailedError("no user has this certificate")


_PROPERTIES_USER: Final = "org.apache.activemq.jaas.properties.user"
_PROPERTIES_ROLE: Final = "org.apache.activemq.jaas.properties.role"
_CERTIFICATE_USER: Final = "org.apache.activemq.jaas.textfiledn.user"
_CERTIFICATE_ROLE: Final = "org.apache.activemq.jaas.textfiledn.role"
_GUEST_USER: Final = "org.apache.activemq.jaas.guest.user"
_GUEST_ROLE: Final = "org.apache.activemq.jaas.guest.role"
_KNOWN_OPTIONS: Final[dict[str, tuple[str, ...]]] = {
    "PropertiesLoginModule": (_PROPERTIES_USER, _PROPERTIES_ROLE),
    "GuestLoginModule": (_GUEST_USER, _GUEST_ROLE, "credentialsInvalidate"),
    "TextFileCertificateLoginModule": (_CERTIFICATE_USER, _CERTIFICATE_ROLE),
}
_COMMON_OPTIONS: Final = ("debug", "reload", "baseDir")


def login_steps(modules: Sequence[ModuleConfiguration], folder: str, read_file: ReadFile) -> tuple[list[LoginStep], list[str]]:
    """The chain of a login entry, and warnings about it.

    File names are relative to ``folder``, where the ``login.config`` is, or to the option ``baseDir``.  Raises ConfigurationError for a
    module that this broker does not have: without that module other users would get in.
    """
    steps: list[LoginStep] = []
    warnings: list[str] = []
    problems: list[Problem] = []
    for configured in modules:
        name = configured.simple_name
        known = _KNOWN_OPTIONS.get(name)
        if known is None:
            problems.append(_problem(configured, f"{configured.class_name} is not supported: expected {', '.join(_KNOWN_OPTIONS)}"))
            continue
        missing = [option for option in known if option in _FILES and not configured.options.get(option)]
        if missing:
            problems.append(_problem(configured, f"{name}: expected the option {missing[0]} with the name of a file"))
            continue
        for option in configured.options:
            if option not in (*known, *_COMMON_OPTIONS):
                text = f"{name}: the option {option} has no effect; known: {_nearest(option, (*known, *_COMMON_OPTIONS))}"
                warnings.append(str(_problem(configured, text)))
        steps.append(LoginStep(configured.flag, _module(name, configured.options, folder, read_file)))
    if problems:
        raise ConfigurationError(problems)
    return steps, warnings


_FILES: Final = (_PROPERTIES_USER, _PROPERTIES_ROLE, _CERTIFICATE_USER, _CERTIFICATE_ROLE)


def _module(name: str, options: Mapping[str, str], folder: str, read_file: ReadFile) -> LoginModule:
    if name == "GuestLoginModule":
        roles = frozenset(role.strip() for role in options.get(_GUEST_ROLE, "guests").split(","))
        return GuestLoginModule(options.get(_GUEST_USER, "guest"), roles, _flag(options, "credentialsInvalidate"))
    base = PurePath(folder, options.get("baseDir", ""))

    def file(option: str) -> PropertiesFile:
        return PropertiesFile(str(base / options[option]), read_file, _flag(options, "reload"))

    if name == "PropertiesLoginModule":
        return PropertiesLoginModule(file(_PROPERTIES_USER), file(_PROPERTIES_ROLE))
    return TextFileCertificateLoginModule(file(_CERTIFICATE_USER), file(_CERTIFICATE_ROLE))


def _flag(options: Mapping[str, str], name: str) -> bool:
    return options.get(name, "").strip().lower() == "true"


def _problem(module: ModuleConfiguration, text: str) -> Problem:
    return Problem("login.config", module.line, text)


def _nearest(name: str, choices: Iterable[str]) -> str:
    """A hint for the error: the nearest choice, or else all choices."""
    listed = list(choices)
    return nearest_name(name, listed) or ", ".join(listed)
