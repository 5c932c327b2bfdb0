"""The security manager of a broker's configuration."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from twisted.logger import Logger

from mqbroker.config.instance.broker_settings import BrokerSettings
from mqbroker.config.model.configuration import DEFAULT_CLUSTER_PASSWORD, DEFAULT_CLUSTER_USER
from mqbroker.config.problems import ConfigurationError
from mqbroker.messaging.ports import Recovered, Store
from mqbroker.node.parts import Parts, StartError
from mqbroker.server.security.audit import AuditLog
from mqbroker.server.security.kept_settings import KeptSettings, restore_security_settings
from mqbroker.server.security.login import LoginStep
from mqbroker.server.security.security import SecurityManager
from mqbroker.server.security.users import KeptUsers, KeptUsersLoginModule

KEPT_USER_KIND = "user"
"""The kind of settings under which the store keeps the users of basic security."""

log = Logger(namespace="mqbroker")


def security_of(
    settings: BrokerSettings,
    recovered: Recovered,
    store: Store,
    parts: Parts,
    audit: AuditLog,
) -> SecurityManager:
    """The security manager; the users of basic security come from ``store``.  Raises StartError."""
    login: Sequence[Any] | None = settings.login
    if settings.basic_security is not None:
        login = [LoginStep("required", KeptUsersLoginModule(_kept_users(settings.basic_security, recovered, store, parts.entropy)))]
    configuration = settings.configuration
    repository = configuration.security_repository()
    restore_security_settings(recovered.settings, repository, lambda text: log.warn("{text}", text=text))
    default = (configuration.cluster_user, configuration.cluster_password) == (DEFAULT_CLUSTER_USER, DEFAULT_CLUSTER_PASSWORD)
    if default and not configuration.cluster_connections:
        log.info("AMQ222007: the cluster user and password are the built-in defaults: nobody can log in with them; change both to use them")
    try:
        return SecurityManager(
            configuration,
            login,
            parts.defer_to_thread,
            parts.clock,
            parts.read_file,
            settings.etc or settings.base,
            certificate_login=settings.certificate_login,
            domains=settings.login_domains,
            repository=repository,
            clustered=bool(configuration.cluster_connections),
            audit=audit,
            write_file=parts.write_file,
            entropy=parts.entropy,
        )
    except ConfigurationError as error:
        raise StartError(str(error)) from error


def _kept_users(properties: dict[str, str], recovered: Recovered, store: Store, entropy: Callable[[int], bytes]) -> KeptUsers:
    records = {key: value for (kind, key), value in recovered.settings.items() if kind == KEPT_USER_KIND}
    users = KeptUsers(records, KeptSettings(store, KEPT_USER_KIND), entropy)
    name, password = properties.get("bootstrapUser"), properties.get("bootstrapPassword")
    if name and password:
        users.bootstrap(name, password, properties.get("bootstrapRole", ""))
    return users
