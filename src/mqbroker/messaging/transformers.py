"""Transformers: code of the operator's that changes messages on their way through a divert or a bridge.

A transformer is a callable ``transform(message, properties)``.  ``message`` is a :class:`mqclient.wire.message.CoreMessage`, taken apart
for this call: headers, ``properties`` (name to type and value), ``body`` in bytes (empty for a large message).  ``properties`` are those
that the configuration gives.  It changes the message, or returns another one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from mqbroker.config.cluster import TransformerConfiguration
from mqclient.wire.message import CoreMessage


class TransformerError(ValueError):
    """A configured transformer cannot be used here; the text says whose it is, and why."""


Transform = Callable[[CoreMessage, Mapping[str, str]], Any]

_PATH = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")


def load_transformer(configuration: TransformerConfiguration, owner: str) -> Callable[[CoreMessage], CoreMessage]:
    """What the configuration names by its import path, ``package.module:callable``.

    ``owner`` says whose it is, for messages.  Raises TransformerError where there is no such thing; Java classes cannot be run here.
    """
    path = configuration.class_name
    if not _PATH.fullmatch(path):
        raise TransformerError(
            f"{owner}: the transformer {path} cannot be run by this broker, which runs no Java; write it in Python and name it "
            "by its import path, package.module:callable"
        )
    module, _, names = path.partition(":")
    try:
        found: Any = import_module(module)
        for name in names.split("."):
            found = getattr(found, name)
    except Exception as error:
        raise TransformerError(f"{owner}: the transformer {path} cannot be imported: {error!r}") from error
    if not callable(found):
        raise TransformerError(f"{owner}: the transformer {path} cannot be called")
    transform: Transform = found

    def changed(message: CoreMessage) -> CoreMessage:
        result = transform(message, configuration.properties)
        return result if isinstance(result, CoreMessage) else message

    return changed
