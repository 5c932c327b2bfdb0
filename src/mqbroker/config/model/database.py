"""A database in the place of files."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from mqbroker.config.model.postgresql_url import libpq_place

_URL = re.compile(r"jdbc:(\w+):(.*)", re.DOTALL)
MESSAGE_TABLE = "MESSAGES"
"""The name in Artemis unless another one is given."""
EXPECTED = "expected jdbc:sqlite:FILE or jdbc:postgresql://HOST:PORT/DATABASE"


@dataclass(frozen=True, slots=True)
class DatabaseStoreConfiguration:
    """Messages are kept in the database that ``url`` names, in the spelling of Java.

    ``network_timeout`` is how long a statement may take until the database counts as away, ``idle_timeout`` how long nothing may happen in
    a transaction until the database ends it (None = as long).  The others are for brokers that share the
    store: a lease lasts for ``lock_expiration`` and is renewed every ``lock_renew_period``; the log notes clocks that differ by more than
    ``allowed_time_diff``.  All are ms.  ``message_table`` is Artemis's name of a table.
    """

    url: str
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    network_timeout: int = 20_000
    lock_expiration: int = 20_000
    lock_renew_period: int = 4_000
    allowed_time_diff: int = 250
    idle_timeout: int | None = None
    message_table: str = MESSAGE_TABLE

    @property
    def broker(self) -> str:
        """The mark that tells the brokers with this database apart, beside their ids: '' or the other table that they name, in upper case.

        A broker id has no blank, so none is the same.
        """
        name = self.message_table.upper()
        return "" if name == MESSAGE_TABLE else f"table {name}"

    @property
    def vendor(self) -> str:
        """The database, such as ``sqlite``; empty for a URL that is none."""
        found = _URL.fullmatch(self.url.strip())
        return "" if found is None else found[1].lower()

    @property
    def place(self) -> str:
        """The URL behind ``jdbc:`` and the database."""
        found = _URL.fullmatch(self.url.strip())
        return "" if found is None else found[2]

    @property
    def libpq(self) -> dict[str, str]:
        """The place of a PostgreSQL database, with user and password where they are known, as libpq names them.

        Raises ValueError for a URL with a :meth:`problem`.
        """
        found = libpq_place(self.place)
        known = (("user", self.user), ("password", self.password))
        return found | {name: value for name, value in known if value}

    def lease_problem(self) -> str | None:
        """Why no lease can last; None when it can."""
        if self.lock_renew_period < self.lock_expiration:
            return None
        return f"{self.lock_renew_period} ms is not less than jdbc-lock-expiration, {self.lock_expiration} ms: no lease would last"

    def problem(self) -> str | None:
        """Why no such database can be used; None when one can."""
        match self.vendor:
            case "sqlite":
                name = self.place.partition("?")[0]
                return None if name and name != ":memory:" else "jdbc:sqlite: needs the name of a file; in memory nothing would be kept"
            case "postgresql":
                try:
                    libpq_place(self.place)
                except ValueError as error:
                    return f"{error}; {EXPECTED}"
                return None
            case "derby":
                return "a Derby database cannot be opened; write jdbc:sqlite:data/mqbroker.db for one in a file"
            case "":
                return f"this is no such URL; {EXPECTED}"
        return f"{self.vendor} is not supported; {EXPECTED}"
