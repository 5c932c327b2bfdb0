"""Adding, changing and removing users: in properties files, or kept by the broker itself.

Files keep their comments and the order of their lines.  Names are written so that a Java broker reads the same files.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from mqbroker.config.masking import SALT_SIZE, hash_password, unwrap, verify_password
from mqbroker.config.properties.properties import PropertiesError, parse_properties
from mqbroker.messaging.event import Event
from mqbroker.server.security.login import Credentials, Identity, LoginFailedError, ReadFile, check_password
from mqclient.errors import MQError

if TYPE_CHECKING:
    from mqbroker.server.security.kept_settings import KeptSettings

WriteFile = Callable[[str, bytes], object]
"""Replaces a file as a whole, so that a reader sees the old or the new one; raises OSError."""

Entropy = Callable[[int], bytes]

_LINE_END: Final = re.compile(r"\r\n|\r|\n")


class UserError(MQError):
    """A change of users that cannot be made; the text goes to the caller."""


class UserAdministration(Protocol):
    """Changes of users by management and the commands.  ``roles`` are separated by commas.  Every method raises :class:`UserError`."""

    def add(self, name: str, password: str, roles: str, plaintext: bool = False) -> None:
        """A new user.  The password is kept as a hash unless ``plaintext``."""

    def remove(self, name: str) -> None: ...

    def reset(self, name: str, password: str | None, roles: str | None, plaintext: bool = False) -> None:
        """Change password, roles, or both: None and the empty text leave things as they are."""

    def list(self, name: str | None = None) -> list[dict[str, Any]]:
        """``username`` and ``roles`` of one user, or of all."""


class PropertiesUsers:
    """The users and roles files of a PropertiesLoginModule.

    ``changed`` is called after every change, also after one of which only the first file could be written.
    """

    def __init__(
        self,
        users_path: str,
        roles_path: str,
        read_file: ReadFile,
        write_file: WriteFile,
        entropy: Entropy,
        changed: Callable[[], object] = lambda: None,
    ) -> None:
        self._users_path = users_path
        self._roles_path = roles_path
        self._read_file = read_file
        self._write_file = write_file
        self._entropy = entropy
        self._changed = changed

    def add(self, name: str, password: str, roles: str, plaintext: bool = False) -> None:
        _check_name(name)
        users, members = self._load(self._users_path), self._load(self._roles_path)
        if users.get(name) is not None:
            raise UserError(f"AMQ229223: User {name} already exists")
        # Roles first: a user without a password cannot log in with half of the roles.
        _set_roles(members, name, _role_names(roles))
        users.put(name, _stored(password, plaintext, self._entropy))
        self._save((self._roles_path, members), (self._users_path, users))

    def remove(self, name: str) -> None:
        users, members = self._existing(name)
        users.remove(name)
        _set_roles(members, name, [])
        self._save((self._users_path, users), (self._roles_path, members))

    def reset(self, name: str, password: str | None, roles: str | None, plaintext: bool = False) -> None:
        users, members = self._existing(name)
        if roles:
            _set_roles(members, name, _role_names(roles))
        if password:
            users.put(name, _stored(password, plaintext, self._entropy))
        self._save((self._roles_path, members), (self._users_path, users))

    def list(self, name: str | None = None) -> list[dict[str, Any]]:
        users, members = self._load(self._users_path), self._load(self._roles_path)
        return _listed({user: [role for role in members.names() if user in _split(members.get(role))] for user in users.names()}, name)

    def _existing(self, name: str) -> tuple[PropertiesText, PropertiesText]:
        users = self._load(self._users_path)
        if users.get(name) is None:
            raise UserError(f"AMQ229224: User {name} does not exist")
        return users, self._load(self._roles_path)

    def _load(self, path: str) -> PropertiesText:
        try:
            return PropertiesText(self._read_file(path))
        except (OSError, PropertiesError) as error:
            raise UserError(f"{path} cannot be read: {error}") from error

    def _save(self, *files: tuple[str, PropertiesText]) -> None:
        """Write the files that were modified, in this order."""
        written = False
        try:
            for path, text in files:
                if text.modified:
                    try:
                        self._write_file(path, text.encoded())
                    except OSError as error:
                        raise UserError(f"{path} cannot be written: {error.strerror or error}") from error
                    written = True
        finally:
            if written:
                self._changed()


class PropertiesText:
    """A properties file as lines whose single entries can be changed.  ``modified``: an entry was changed."""

    def __init__(self, contents: bytes | str) -> None:
        text, self._encoding = (contents, "utf-8") if isinstance(contents, str) else _decoded(contents)
        self.modified = False
        self._blocks = [(parse_properties(block), block) for block in _blocks(text)]

    def names(self) -> list[str]:
        """The keys in their order, each once."""
        return list(dict.fromkeys(entry.key for entries, _ in self._blocks for entry in entries))

    def get(self, key: str) -> str | None:
        """The value of ``key``; the last one if the file has several, as in Java."""
        found = None
        for entries, _ in self._blocks:
            for entry in entries:
                if entry.key == key:
                    found = entry.value
        return found

    def put(self, key: str, value: str) -> None:
        """Replace the value of ``key`` where it stands, or add it at the end."""
        line = f"{_escaped(key, True)} = {_escaped(value, False)}"
        kept: list[Any] = []
        written = False
        for entries, block in self._blocks:
            if any(entry.key == key for entry in entries):
                if not written:
                    kept.append((parse_properties(line), line + _end_of(block)))
                written = True
            else:
                kept.append((entries, block))
        if not written:
            if kept:
                entries, block = kept[-1]
                last_line = _LINE_END.split(block.removesuffix(_end_of(block)))[-1]
                unfinished = bool(entries) and _is_continued(last_line)
                kept[-1] = entries, block + "\n" * ((not _end_of(block)) + unfinished)
            kept.append((parse_properties(line), line + "\n"))
        self._blocks = kept
        self.modified = True

    def remove(self, key: str) -> None:
        kept = [(entries, block) for entries, block in self._blocks if not any(entry.key == key for entry in entries)]
        self.modified = self.modified or len(kept) < len(self._blocks)
        self._blocks = kept

    def encoded(self) -> bytes:
        """The file in its encoding; new entries are ASCII."""
        return "".join(block for _, block in self._blocks).encode(self._encoding)


def _decoded(contents: bytes) -> tuple[str, str]:
    try:
        return contents.decode("utf-8-sig"), "utf-8"
    except UnicodeDecodeError:
        return contents.decode("iso-8859-1"), "iso-8859-1"


def _blocks(text: str) -> Iterator[str]:
    """The text cut behind each entry, comment or blank line; an entry with its continuation lines is one piece."""
    start = position = 0
    fresh = True
    while position < len(text):
        match = _LINE_END.search(text, position)
        end = match.end() if match else len(text)
        line = text[position : match.start() if match else end]
        comment = fresh and line.lstrip(" \t\f")[:1] in ("", "#", "!")
        continued = not comment and _is_continued(line)
        position = end
        fresh = not continued
        if fresh:
            yield text[start:position]
            start = position
    if start < len(text):
        yield text[start:]


def _is_continued(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _end_of(block: str) -> str:
    match = re.search(r"(?:\r\n|\r|\n)\Z", block)
    return match.group() if match else ""


def _escaped(text: str, is_key: bool) -> str:
    parts: list[str] = []
    for at, character in enumerate(text):
        if character in "\\" or (is_key and character in " :=") or (at == 0 and character in " #!"):
            parts.append("\\" + character)
        elif " " <= character <= "~":
            parts.append(character)
        else:
            raw = character.encode("utf-16-be", "surrogatepass").hex()
            parts += [f"\\u{raw[start : start + 4]}" for start in range(0, len(raw), 4)]
    return "".join(parts)


def _set_roles(members: PropertiesText, name: str, roles: Sequence[str]) -> None:
    """Make ``name`` a member of exactly these roles; remove a role without members."""
    for role in dict.fromkeys((*members.names(), *roles)):
        users = _split(members.get(role))
        wanted = role in roles
        if wanted == (name in users):
            continue
        users = [*users, name] if wanted else [user for user in users if user != name]
        if users:
            members.put(role, ",".join(users))
        else:
            members.remove(role)


def _split(users: str | None) -> list[str]:
    return users.split(",") if users else []


def _role_names(roles: str) -> list[str]:
    names = [role.strip() for role in roles.split(",") if role.strip()]
    for name in names:
        _check_text(name, "role")
    return names


def _check_name(name: str) -> None:
    if not name or name != name.strip() or "," in name:
        raise UserError(f"{name!r} cannot be the name of a user: expected a text without commas and without blanks around it")
    _check_text(name, "user")


def _check_text(name: str, what: str) -> None:
    if any(character < " " or "\ud800" <= character <= "\udfff" for character in name):
        raise UserError(f"{name!r} cannot be the name of a {what}: it holds characters that are not text")


def _stored(password: str, plaintext: bool, entropy: Entropy) -> str:
    if not password:
        raise UserError("the password must not be empty")
    try:
        password.encode()
    except UnicodeEncodeError:
        raise UserError("the password holds characters that are not text") from None
    if not plaintext:
        return hash_password(password, entropy(SALT_SIZE))
    if unwrap(password) is not None or password != password.strip():
        raise UserError("this password can only be kept as a hash: as plain text it would be read as another one")
    return password


def _listed(users: Mapping[str, Iterable[str]], name: str | None) -> list[dict[str, Any]]:
    if name and name not in users:
        raise UserError(f"AMQ229224: User {name} does not exist")
    return [{"username": user, "roles": sorted(roles)} for user, roles in users.items() if not name or user == name]


class KeptUsers:
    """Users of basic security, kept by the broker itself.  ``records`` are the users in ``store``, by name."""

    def __init__(self, records: Mapping[str, str], store: KeptSettings, entropy: Entropy) -> None:
        self.changed: Event[()] = Event()
        self._store = store
        self._entropy = entropy
        self._users: dict[str, tuple[str, frozenset[str]]] = {}
        for name, record in records.items():
            fields = json.loads(record)
            self._users[name] = fields["password"], frozenset(fields["roles"])

    def find(self, name: str) -> tuple[str, frozenset[str]] | None:
        """The stored password, plain or hashed, and the roles."""
        return self._users.get(name)

    def bootstrap(self, name: str, stored: str, roles: str) -> None:
        """At a start: give the user of the configuration this password (plain or ``ENC(hash)``) and these roles; make a missing user."""
        _check_name(name)
        names, known = frozenset(_role_names(roles)), self._users.get(name)
        if unwrap(stored) is None:
            # Hashing again would give another text and a needless write: a stored hash that fits the password stays.
            stored = known[0] if known is not None and verify_password(stored, known[0]) else _stored(stored, False, self._entropy)
        self._put(name, stored, names)

    def add(self, name: str, password: str, roles: str, plaintext: bool = False) -> None:
        _check_name(name)
        if name in self._users:
            raise UserError(f"AMQ229223: User {name} already exists")
        self._put(name, _stored(password, plaintext, self._entropy), frozenset(_role_names(roles)))

    def remove(self, name: str) -> None:
        self._existing(name)
        del self._users[name]
        self._store.delete(name)
        self.changed()

    def reset(self, name: str, password: str | None, roles: str | None, plaintext: bool = False) -> None:
        stored, had = self._existing(name)
        self._put(
            name, _stored(password, plaintext, self._entropy) if password else stored, frozenset(_role_names(roles)) if roles else had
        )

    def list(self, name: str | None = None) -> list[dict[str, Any]]:
        return _listed({user: roles for user, (_, roles) in self._users.items()}, name)

    def _existing(self, name: str) -> tuple[str, frozenset[str]]:
        found = self._users.get(name)
        if found is None:
            raise UserError(f"AMQ229224: User {name} does not exist")
        return found

    def _put(self, name: str, stored: str, roles: frozenset[str]) -> None:
        if self._users.get(name) == (stored, roles):
            return
        self._users[name] = stored, roles
        self._store.put(name, json.dumps({"password": stored, "roles": sorted(roles)}))
        self.changed()


class KeptUsersLoginModule:
    """Logs in by the users that the broker keeps."""

    def __init__(self, users: KeptUsers) -> None:
        self.users = users

    def login(self, credentials: Credentials) -> Identity | None:
        if credentials.user is None:
            raise LoginFailedError("no user name was given")
        found = self.users.find(credentials.user)
        if found is None:
            raise LoginFailedError("there is no such user")
        stored, roles = found
        check_password(credentials.password, stored, f"user {credentials.user}")
        return Identity(credentials.user, roles)
