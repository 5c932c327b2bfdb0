"""The settings of a connection factory, and how a connection URL sets them.

Names, defaults and grammar are those of the Artemis client ("Configuring Transports", "Connection URL").  Names are case-sensitive.  As in
Java an unknown name is no error; here it gives a warning with the nearest known name.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass, field, fields, replace
from typing import Any, Final

from mqclient.core.api import LocatorSettings, TransportConfiguration
from mqclient.core.connection.configuration import configuration_from_url
from mqclient.core.settings import check_setting
from mqclient.jms.exceptions import IllegalArgumentException, IllegalStateException
from mqclient.openmq import connection_url
from mqclient.protocol.discovery import DiscoveryGroupConfiguration
from mqclient.text import nearest_name
from mqclient.urls import ConnectionUrl, UrlError

OLD_NAMES: Final = {"loadBalancingPolicyClassName": "connectionLoadBalancingPolicyClassName"}
"""Parameters of early versions that still stand in ``jndi.properties`` files."""

WITHOUT_EFFECT: Final = {
    "type": "the class that is called decides; names of a jndi.properties file follow it",
    "passwordCodec": "Java classes cannot be loaded; give a function as password_codec",
    "stoppingTimeout": "discovery needs no thread",
}
"""Parameters of JMS that are accepted as in Java and change nothing, with the reason."""

_STORE_PASSWORDS: Final = frozenset({"keyStorePassword", "trustStorePassword"})


def _url(name: str, default: Any) -> Any:
    return field(default=default, metadata={"url": name})


@dataclass(slots=True, kw_only=True)
class FactorySettings(LocatorSettings):
    """The settings of a connection factory: all of :class:`mqclient.core.api.LocatorSettings`, and those of JMS.

    Setting a value raises IllegalArgumentException for a wrong type or range, and IllegalStateException once the first connection has
    frozen the settings.
    """

    enable_shared_client_id: bool = _url("enableSharedClientID", False)
    """Several connections may have the same client id."""
    enable_1x_prefixes: bool = _url("enable1xPrefixes", False)
    """Addresses get the prefixes of Artemis 1.x (``jms.queue.`` and others)."""
    cache_destinations: bool = _url("cacheDestinations", False)
    """``create_queue`` and ``create_topic`` return the same object for the same name, and ask the broker once."""
    frozen: bool = field(default=False, init=False, repr=False, compare=False)

    def __setattr__(self, name: str, value: object) -> None:
        if getattr(self, "frozen", False):
            raise IllegalStateException(f"{name} can no longer be set: the factory has made a connection")
        kind = _KINDS.get(name)
        if kind is not None:
            try:
                check_setting(name, value, kind)
            except ValueError as error:
                raise IllegalArgumentException(str(error)) from None
        object.__setattr__(self, name, value)

    def freeze(self) -> None:
        if not self.frozen:
            self.frozen = True

    def update(self, **values: object) -> None:
        """Set several at once.

        Raises AttributeError, naming the nearest name, for one that does not exist, IllegalArgumentException for a value that cannot be.
        """
        known = [entry.name for entry in fields(self) if entry.init]
        for name, value in values.items():
            if name not in known:
                nearest = nearest_name(name, known)
                raise AttributeError(f"a connection factory has no setting {name}{f'; did you mean {nearest}?' if nearest else ''}")
            setattr(self, name, value)


_KINDS: Final = {entry.name: str(entry.type) for entry in fields(FactorySettings) if entry.init}


def read_url(
    text: str,
    settings: FactorySettings,
    password_codec: Callable[[str], str] | None = None,
    attributes: Mapping[str, str] | None = None,
) -> tuple[TransportConfiguration, ...] | DiscoveryGroupConfiguration:
    """Set ``settings`` from a connection URL and give its connectors, or the discovery group of ``udp`` and ``jgroups``.

    ``attributes`` are those of Open Message Queue, which count more than the URL (:mod:`mqclient.openmq`).

    Raises IllegalArgumentException for a text that is no URL, and for a bad value.
    """
    try:
        return _read_url(text, settings, password_codec, attributes)
    except IllegalArgumentException:
        raise
    except ValueError as error:
        raise IllegalArgumentException(str(error)) from error


def _read_url(
    text: str, settings: FactorySettings, password_codec: Callable[[str], str] | None, attributes: Mapping[str, str] | None
) -> tuple[TransportConfiguration, ...] | DiscoveryGroupConfiguration:
    url = _with_plain_stores(_with_new_names(connection_url(text, attributes)), password_codec)
    found = configuration_from_url(url, frozenset((*WITHOUT_EFFECT, *(entry.metadata["url"] for entry in _own_fields()))))
    for sentence in found.warnings:
        warnings.warn(sentence, stacklevel=4)
    for entry in fields(found.settings):
        setattr(settings, entry.name, getattr(found.settings, entry.name))
    for entry in _own_fields():
        setattr(settings, entry.name, _flag(entry.metadata["url"], url.parameters.get(entry.metadata["url"], "false")))
    settings.password = _unmasked(settings.password, password_codec)
    return found.brokers


def _own_fields() -> list[Field[Any]]:
    inherited = {entry.name for entry in fields(LocatorSettings)}
    return [entry for entry in fields(FactorySettings) if entry.init and entry.name not in inherited]


def _with_new_names(url: ConnectionUrl) -> ConnectionUrl:
    endpoints = tuple(replace(one, parameters=_renamed(one.parameters)) for one in url.endpoints)
    return replace(url, endpoints=endpoints, parameters=_renamed(url.parameters))


def _renamed(parameters: Mapping[str, str]) -> dict[str, str]:
    return {OLD_NAMES.get(name, name): value for name, value in parameters.items()}


def _with_plain_stores(url: ConnectionUrl, password_codec: Callable[[str], str] | None) -> ConnectionUrl:
    """The URL with the passwords of key stores and trust stores decoded."""

    def plain(parameters: Mapping[str, str]) -> dict[str, str]:
        return {name: _unmasked(value, password_codec) or "" if name in _STORE_PASSWORDS else value for name, value in parameters.items()}

    return replace(url, endpoints=tuple(replace(one, parameters=plain(one.parameters)) for one in url.endpoints))


def _flag(name: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise UrlError(f"{name}={text}: expected true or false")
    return text.lower() == "true"


def _unmasked(password: str | None, password_codec: Callable[[str], str] | None) -> str | None:
    if password is None or not (password.startswith("ENC(") and password.endswith(")")):
        return password
    if password_codec is None:
        raise UrlError("a password of the connection URL is masked; give password_codec to the connection factory, or the plain password")
    return password_codec(password[4:-1])
