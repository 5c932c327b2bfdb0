"""Definitions and changes that hypothesis makes up."""

from __future__ import annotations

from hypothesis import strategies as st

from mqbroker.config.model.cluster import DivertConfiguration, TransformerConfiguration
from mqbroker.imq.record.changes import Definition
from mqbroker.messaging.administration.registrar import AddressDefinition, AddressSettingDefinition, Change
from mqbroker.messaging.queues.definitions import ANYCAST, MULTICAST, QueueDefinition

NAMES = st.sampled_from(("a", "b", "a:b", "ü", "x\u2028y", "new\nline"))
TYPES = st.frozensets(st.sampled_from((ANYCAST, MULTICAST)), min_size=1)


def addresses() -> st.SearchStrategy[AddressDefinition]:
    return st.builds(AddressDefinition, NAMES, TYPES)


def queues() -> st.SearchStrategy[QueueDefinition]:
    return st.builds(
        QueueDefinition,
        name=NAMES,
        address=NAMES,
        routing_type=st.sampled_from((ANYCAST, MULTICAST)),
        filter_string=st.none() | st.just("a = 1"),
        max_consumers=st.integers(-1, 3),
        exclusive=st.booleans(),
        user=st.none() | st.just("somebody"),
        configuration_managed=st.booleans(),
    )


def diverts() -> st.SearchStrategy[DivertConfiguration]:
    return st.builds(
        DivertConfiguration,
        name=NAMES,
        address=NAMES,
        forwarding_addresses=st.lists(NAMES, min_size=1, max_size=2).map(tuple),
        transformer=st.none() | st.builds(TransformerConfiguration, NAMES, st.dictionaries(NAMES, NAMES, max_size=1)),
    )


def settings() -> st.SearchStrategy[AddressSettingDefinition]:
    return st.builds(AddressSettingDefinition, NAMES, st.sampled_from(("{}", '{"maxDeliveryAttempts":3}')))


def definitions() -> st.SearchStrategy[Definition]:
    return addresses() | queues() | diverts() | settings()


def changes() -> st.SearchStrategy[Change]:
    return st.builds(Change, st.sampled_from(("create", "update", "delete")), definitions())
