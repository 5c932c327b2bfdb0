"""The databases that properties name: that of the broker's own store, and that of the change record of a cluster of peers."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from mqbroker.config.imq.checked import Checked
from mqbroker.config.imq.members import ENHANCED, PEERS
from mqbroker.config.imq.passwords import Passwords
from mqbroker.config.imq.table import RECORD_DATABASE, STORE_DATABASE
from mqbroker.config.model.database import DatabaseStoreConfiguration
from mqbroker.config.model.home_cluster import SharedRecord
from mqbroker.config.problems import Findings

VENDORS = ("postgresql", "sqlite")
CLUSTER_ID = "imq.cluster.clusterid"
BROKER_ID = "imq.brokerid"

NEEDS_BROKER_ID = (
    f"{BROKER_ID} is missing: other brokers may have their messages in this database, too, each under a name of its own; "
    "only a file of SQLite in the folder of the instance needs none"
)

_NAME = re.compile("[A-Za-z0-9_]+")


@dataclass(frozen=True, slots=True)
class Databases:
    """``store`` is None for a store in files, ``record`` for a cluster with a master broker or without a record.

    ``silence`` is how long the stamp of a member of an enhanced cluster stands still until the member counts as gone, s.
    """

    store: DatabaseStoreConfiguration | None = None
    record: SharedRecord | None = None
    broker_id: str | None = None
    enhanced: bool = False
    silence: float = 0.0
    prefix: str = STORE_DATABASE
    """Of the properties of the store's database."""

    @property
    def broker(self) -> str:
        """The name under which this broker's data stand in the store's database."""
        return self.broker_id or ("" if self.store is None else self.store.broker)


WrittenStore = Callable[[], DatabaseStoreConfiguration | None]
"""Gives the ``database-store`` of the broker.xml; asked where the properties do not say where messages are."""


def find_databases(
    checked: Checked,
    folder: str,
    passwords: Passwords,
    findings: Findings,
    written: WrittenStore,
    user: str | None = None,
    password: str | None = None,
) -> Databases:
    """Read the databases of an instance in ``folder``, which a file of SQLite may be relative to; errors go to ``findings``.

    ``user`` and ``password`` count in the place of those that the properties give.
    """
    return _Finder(checked, folder, passwords, findings, written, user, password).find()


def may_be_shared(store: DatabaseStoreConfiguration, folder: str) -> bool:
    """May several instances have this database?  Not if it is a file in the ``folder`` of one."""
    if store.vendor != "sqlite":
        return True
    own = posixpath.normpath(folder)
    path = posixpath.normpath(posixpath.join(own, store.place.partition("?")[0]))
    return not path.startswith(f"{own}/")


class _Finder:
    def __init__(
        self,
        checked: Checked,
        folder: str,
        passwords: Passwords,
        findings: Findings,
        written: WrittenStore,
        user: str | None,
        password: str | None,
    ) -> None:
        self._checked = checked
        self._folder = folder
        self._passwords = passwords
        self._findings = findings
        self._written = written
        self._user = user
        self._password = password

    def find(self) -> Databases:
        silence = self._checked["imq.cluster.monitor.interval"] * (self._checked["imq.cluster.monitor.threshold"] + 1)
        prefix = self._begin(STORE_DATABASE, self._checked.get(f"{STORE_DATABASE}.dbVendor", "").lower())
        return replace(self._find(), silence=float(silence), prefix=prefix)

    def _find(self) -> Databases:
        broker_id = self._name(BROKER_ID, "a name that no other broker of the database has")
        by_properties = self._checked["imq.persist.store"] == "JDBC"
        store = self._database(STORE_DATABASE, self._own_file) if by_properties else self._store_of_xml()
        if self._checked[ENHANCED]:
            return self._enhanced(store, broker_id)
        record = self._record(store) if self._checked[PEERS] else None
        if store is not None and not self._checked.get(BROKER_ID) and may_be_shared(store, self._folder):
            self._findings.error(*self._checked.place("imq.persist.store" if by_properties else BROKER_ID), NEEDS_BROKER_ID)
        return Databases(store, record, broker_id)

    def _store_of_xml(self) -> DatabaseStoreConfiguration | None:
        """The ``database-store`` of the broker.xml, with the user and password of the properties where these give them."""
        found = self._written()
        if found is None:
            return None
        user, password = self._login(self._begin(STORE_DATABASE, self._checked.get(f"{STORE_DATABASE}.dbVendor", "").lower()))
        return replace(found, user=user or found.user, password=password or found.password)

    def _login(self, begin: str) -> tuple[str | None, str | None]:
        """User and password of the database whose properties begin so."""
        user = self._user or self._checked.get(f"{begin}.user") or self._checked.get(f"{begin}.property.user")
        names = f"{begin}.password", f"{begin}.property.password"
        return user, self._password or next(filter(None, map(self._passwords.get, names)), None)

    def _enhanced(self, store: DatabaseStoreConfiguration | None, broker_id: str | None) -> Databases:
        """All brokers of an enhanced cluster have one database for everything."""
        place = self._checked.place(ENHANCED)
        cluster = self._name(CLUSTER_ID, "the name of the cluster")
        for name, what in ((CLUSTER_ID, "the name of the cluster"), (BROKER_ID, "a name that no other broker of the cluster has")):
            if not self._checked.get(name):
                self._findings.error(*place, f"{ENHANCED}=true needs {name}, {what}")
        if self._checked["imq.persist.store"] != "JDBC":
            self._findings.error(*place, f"{ENHANCED}=true needs imq.persist.store=jdbc: its brokers share a database")
        if store is not None and store.vendor == "sqlite" and not self._checks_common_file():
            return Databases(store, None, broker_id, enhanced=True)
        record = None if store is None or cluster is None else SharedRecord(store, cluster)
        return Databases(store, record, broker_id, enhanced=True)

    def _checks_common_file(self) -> bool:
        """The file of SQLite is to be the same for all brokers."""
        for vendor in (".sqlite", ""):
            name = f"{STORE_DATABASE}{vendor}.opendburl"
            text = self._checked.get(name)
            if text:
                path = DatabaseStoreConfiguration(text).place.partition("?")[0]
                return self._common_file(name, path) is not None
        return True

    def _record(self, store: DatabaseStoreConfiguration | None) -> SharedRecord | None:
        cluster = self._name(CLUSTER_ID, "the name of the cluster")
        if not self._checked.get(CLUSTER_ID):
            self._findings.error(*self._checked.place(PEERS), f"{PEERS}=true needs {CLUSTER_ID}, the name of the cluster in the database")
        named = any(self._checked.get(f"{RECORD_DATABASE}.{name}") for name in ("dbVendor", "opendburl"))
        database = store if store is not None and not named else self._database(RECORD_DATABASE, self._common_file)
        if database is store is not None and not may_be_shared(store, self._folder):
            text = f"{PEERS}=true needs a database that all brokers reach: that of the messages is a file in the folder of this instance"
            self._findings.error(*self._checked.place(PEERS), text)
        if database is None or cluster is None:
            return None
        retries = f"{RECORD_DATABASE}.connection.retry"
        return SharedRecord(
            database,
            cluster,
            create=self._checked["imq.cluster.sharecc.persistCreate"],
            retries=self._checked[f"{retries}.max"],
            retry_s=self._checked[f"{retries}.delay"] / 1000,
        )

    def _name(self, name: str, expected: str) -> str | None:
        text: str | None = self._checked.get(name)
        if text is None or _NAME.fullmatch(text):
            return text
        if name == CLUSTER_ID and not self._checked[PEERS] and not self._checked[ENHANCED]:
            return text
        self._findings.error(*self._checked.place(name), f"{name}={text}: expected {expected}, of letters, digits and _")
        return None

    # --- one database

    def _database(self, prefix: str, file_of: Callable[[str, str], str | None]) -> DatabaseStoreConfiguration | None:
        """The database below ``prefix``; ``file_of`` gives the place of a file of SQLite."""
        vendor = self._vendor(prefix)
        if vendor is None:
            return None
        begin = self._begin(prefix, vendor)
        name, url = self._url(begin, vendor)
        if url is None:
            self._findings.error(*self._checked.place(f"{prefix}.dbVendor"), f"{name} is missing: expected jdbc:{vendor}:…")
            return None
        user, password = self._login(begin)
        if self._checked.get(f"{begin}.needpassword") and password is None:
            text = f"{begin}.needpassword=true: expected {begin}.password, also in the passfile: nobody is asked for it"
            self._findings.error(*self._checked.place(f"{begin}.needpassword"), text)
        found = DatabaseStoreConfiguration(url, user, password)
        problem = found.problem() or (None if found.vendor == vendor else f"expected jdbc:{vendor}:…")
        if problem is not None:
            self._findings.error(*self._checked.place(name), f"{name}: {problem}")
            return None
        if vendor == "sqlite":
            path = file_of(name, found.place.partition("?")[0])
            return None if path is None else DatabaseStoreConfiguration(f"jdbc:sqlite:{path}")
        return found

    def _begin(self, prefix: str, vendor: str) -> str:
        """The beginning of the names of a database's properties; the old names have no vendor."""
        return f"{prefix}.{vendor}" if self._checked.get(f"{prefix}.dbVendor") else prefix

    def _vendor(self, prefix: str) -> str | None:
        """The database, by its name or, in the old spelling, by the URL."""
        name = f"{prefix}.dbVendor"
        vendor: str = self._checked.get(name, "").lower()
        if not vendor:
            old = self._checked.get(f"{prefix}.opendburl")
            if old is None:
                wanted_by = "imq.persist.store" if prefix == STORE_DATABASE else PEERS
                self._findings.error(*self._checked.place(wanted_by), f"{name} is missing: expected {' or '.join(VENDORS)}")
                return None
            name, vendor = f"{prefix}.opendburl", DatabaseStoreConfiguration(old).vendor
        if vendor in VENDORS:
            return vendor
        self._findings.error(
            *self._checked.place(name), f"{name}: {vendor or 'another text'} is not supported: expected {' or '.join(VENDORS)}"
        )
        return None

    def _url(self, begin: str, vendor: str) -> tuple[str, str | None]:
        """The property that gives the URL, and the URL; that of a data source may be given in parts."""
        for name in (f"{begin}.opendburl", f"{begin}.property.url"):
            if self._checked.get(name):
                return name, self._checked.get(name)
        database = self._checked.get(f"{begin}.property.databaseName")
        if database and vendor == "postgresql":
            host = self._checked.get(f"{begin}.property.serverName", "localhost")
            port = self._checked.get(f"{begin}.property.portNumber", "5432")
            return f"{begin}.property.databaseName", f"jdbc:postgresql://{host}:{port}/{database}"
        return f"{begin}.opendburl", None

    def _own_file(self, name: str, path: str) -> str | None:
        return posixpath.normpath(posixpath.join(self._folder, path))

    def _common_file(self, name: str, path: str) -> str | None:
        if path.startswith("/"):
            return posixpath.normpath(path)
        text = f"{name}: {path}: expected a path that begins with / or ${{imq.instanceshome}}: all brokers have the same file"
        self._findings.error(*self._checked.place(name), text)
        return None
