"""Changes as JSON values, for requests between brokers, and as texts, for the settings of the store and the backup file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from mqbroker.imq.record.changes import Kind, Recorded, Wish, definition_of
from mqbroker.imq.record.record import Appended, Page

_FIELDS = {"position": int, "kind": str, "key": str, "form": dict, "origin": str, "time": int}
_WISH_FIELDS = {"action": str, "kind": str, "key": str, "form": dict}


def values_of(change: Recorded) -> dict[str, Any]:
    """A change as JSON values."""
    values: dict[str, Any] = {
        "position": change.position,
        "kind": change.kind.value,
        "key": change.key,
        "form": dict(change.form),
        "origin": change.origin,
        "time": change.time_ms,
    }
    if change.made is not None:
        values["made"] = change.made
    if change.generation is not None:
        values["generation"] = change.generation
    return values


def change_of(values: Any) -> Recorded:
    """The change of JSON values.  Raises ValueError, which says what is wrong."""
    found = _checked(values, _FIELDS)
    kind = Kind(found["kind"])
    key, form = found["key"], found["form"]
    if kind is Kind.RESET:
        if key or not isinstance(form.get("generation"), str) or not isinstance(form.get("former"), list):
            raise ValueError("the reset record is incomplete")
    elif kind.removes:
        if ":" not in key:
            raise ValueError(f"a removal of {key!r}")
    else:
        definition_of(key, form)
    if found["position"] < 1:
        raise ValueError(f"the position {found['position']} is none")
    made, generation = found.get("made"), found.get("generation")
    if generation is not None and (type(generation) is not str or made is None):
        raise ValueError(f"generation is {generation!r}, and made is {made!r}")
    if made is not None and (type(made) is not int or made < 1 or (generation is None and made >= found["position"])):
        raise ValueError(f"made is {made!r}")
    return Recorded(found["position"], kind, key, form, found["origin"], found["time"], made, generation)


def page_values(generation: str, page: Page) -> dict[str, Any]:
    """A page of the record of this generation as JSON values."""
    return {
        "generation": generation,
        "reset": page.reset,
        "changes": [values_of(change) for change in page.changes],
        "more": page.more,
        "floor": page.floor,
    }


def appended_values(appended: Appended) -> dict[str, Any]:
    """The answer to a wish as JSON values."""
    return {"position": appended.position, "change": None if appended.change is None else values_of(appended.change)}


def wish_values(wish: Wish) -> dict[str, Any]:
    """A wish as JSON values."""
    return {"action": wish.action, "kind": wish.kind.value, "key": wish.key, "form": dict(wish.form)}


def wish_from(values: Any) -> Wish:
    """The wish of JSON values.  Raises ValueError, which says what is wrong."""
    found = _checked(values, _WISH_FIELDS)
    if found["action"] not in ("create", "update", "delete"):
        raise ValueError(f"the action {found['action']!r} is unknown")
    wish = Wish(found["action"], Kind(found["kind"]), found["key"], found["form"])
    if wish.kind is Kind.RESET or wish.kind.removes != (wish.action == "delete"):
        raise ValueError(f"{wish.action} is no {wish.kind}")
    definition_of(wish.key, wish.form)
    return wish


def text_of(change: Recorded) -> str:
    """A change as one line."""
    return json.dumps(values_of(change), ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def change_from(text: str) -> Recorded:
    """The change of a line.  Raises ValueError."""
    try:
        return change_of(json.loads(text))
    except RecursionError as error:
        raise ValueError("the text is nested too deeply") from error


def _checked(values: Any, types: Mapping[str, type]) -> dict[str, Any]:
    if not isinstance(values, dict):
        raise ValueError(f"{values!r} is no change")
    for name, kind in types.items():
        if type(values.get(name)) is not kind:
            raise ValueError(f"{name} is {values.get(name)!r}")
    return values
