"""Transformers: the operator's code that changes messages on their way through a divert or a bridge.

A transformer is named by its import path, ``package.module:Name`` or ``package.module.Name``.  It is a function of the message and the
configured properties (name to text), or a class whose objects have ``transform(message)`` and, if they want the properties,
``init(properties)``.  The message is a :class:`mqclient.wire.message.CoreMessage`, taken apart for this call: headers, ``properties`` (name
to type and value), ``body`` in bytes (empty for a large message).  The transformer changes this message, or returns another one.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from mqbroker.config.model.cluster import TransformerConfiguration
from mqclient.wire.message import CoreMessage
from mqclient.wire.properties import STRING

Transform = Callable[[CoreMessage], CoreMessage]

ADD_HEADERS = "org.apache.activemq.artemis.core.server.transformer.AddHeadersTransformer"
"""The one transformer that real brokers bring along: its properties become properties of each message."""


class TransformerError(ValueError):
    """A configured transformer cannot be used here; the text says whose it is, and why."""


def load_transformer(configuration: TransformerConfiguration, owner: str) -> Transform:
    """The transformer that the configuration names.

    ``owner`` names the divert or bridge in error texts.  Raises TransformerError when there is no such transformer; Java classes cannot be
    run.
    """
    properties = dict(configuration.properties)
    if configuration.class_name == ADD_HEADERS:
        return _add_headers(properties)
    name = f"{owner}: the transformer {configuration.class_name}"
    found = _find(configuration.class_name, name)
    arguments: tuple[object, ...] = (properties,)
    if isinstance(found, type):
        try:
            instance: Any = found()
            if hasattr(instance, "init"):
                instance.init(properties)
            found, arguments = instance.transform, ()
        except Exception as error:
            raise TransformerError(f"{name} cannot be made: {error!r}") from error
    if not callable(found):
        raise TransformerError(f"{name} is neither a class with a method transform nor a function")
    function: Callable[..., object] = found

    def transform(message: CoreMessage) -> CoreMessage:
        result = function(message, *arguments)
        return result if isinstance(result, CoreMessage) else message

    return transform


def _find(path: str, name: str) -> Any:
    module_name, colon, attributes = path.partition(":")
    if not colon:
        module_name, _, attributes = path.rpartition(".")
    if not module_name or not attributes:
        raise TransformerError(f"{name} is not an import path; expected package.module:name")
    try:
        found: Any = import_module(module_name)
    except Exception as error:
        hint = "; this broker runs no Java: write it in Python" if path.startswith(("org.", "com.")) else ""
        raise TransformerError(f"{name} cannot be imported: {error!r}{hint}") from error
    for attribute in attributes.split("."):
        try:
            found = getattr(found, attribute)
        except AttributeError as error:
            raise TransformerError(f"{name}: module {module_name} has no {attributes}") from error
    return found


def _add_headers(properties: dict[str, str]) -> Transform:
    def transform(message: CoreMessage) -> CoreMessage:
        for key, value in properties.items():
            message.properties[key] = (STRING, value)
        return message

    return transform
