"""The classes of the entries of the table (decision 28).

Defaults are not written here: they are the defaults of the dataclass field of the same name.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from mqbroker.config.schema.values import BOOLEAN, Kind


class Support(Enum):
    """How the broker treats an entry."""

    HONOURED = "honoured"
    IGNORED = "ignored"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Item:
    """An element with a text, or an attribute.

    ``unless`` are values that ask for nothing that is missing: with them an ignored item causes no warning and a refused one is fine.
    ``None`` for an ignored item: it never causes a warning.  ``instead`` names the present spelling of an old one, ``field`` the
    dataclass field where it is not simply the name with underscores, ``beans`` the properties of Java beans that stand for it where they
    are not simply the name in that spelling.
    """

    name: str
    kind: Kind
    description: str
    support: Support = Support.HONOURED
    reason: str = ""
    unless: tuple[object, ...] | None = None
    required: bool = False
    instead: str = ""
    field: str = ""
    beans: tuple[str, ...] = ()

    @property
    def target(self) -> str:
        """The name of the dataclass field."""
        return self.field or self.name.lower().replace("-", "_")

    @property
    def bean(self) -> str:
        """The property of a Java bean by which management shows it."""
        return self.beans[0] if self.beans else camel(self.name)


def camel(name: str) -> str:
    """An element's name in the spelling of Java beans."""
    first, *rest = name.split("-")
    return first + "".join(part[:1].upper() + part[1:] for part in rest)


@dataclass(frozen=True, slots=True)
class Block:
    """An element with elements or attributes inside.

    ``text`` is the kind of its own text, if it may have one.  ``inside`` of a refused block lists the elements and attributes (``@name``)
    below it: nothing reads them, but the documentation names them.  ``harmless`` are elements that ask for nothing while they are empty.

    ``gives``: the element is a way to write one value of the element around it, and that is how overriding properties write the same.
    ``only_beans`` are items that only overriding properties have.
    """

    name: str
    description: str
    attributes: tuple[Item, ...] = ()
    children: tuple[Item | Block, ...] = ()
    repeated: bool = False
    support: Support = Support.HONOURED
    reason: str = ""
    text: Kind | None = None
    instead: str = ""
    inside: tuple[str, ...] = ()
    harmless: tuple[str, ...] = ()
    gives: Item | None = None
    only_beans: tuple[Item, ...] = ()

    @property
    def key(self) -> str:
        """The attribute that tells one of several such elements from the others."""
        return "match" if self.attribute("match") else "name"

    def child(self, name: str) -> Item | Block | None:
        return next((child for child in self.children if child.name == name), None)

    def attribute(self, name: str) -> Item | None:
        return next((item for item in self.attributes if item.name == name), None)

    def block(self, name: str) -> Block:
        """The block inside this one that is called ``name``.  Raises KeyError."""
        found = self.child(name)
        if not isinstance(found, Block):
            raise KeyError(name)
        return found

    def items(self) -> Iterator[Item]:
        """The attributes and the plain elements."""
        yield from self.attributes
        for child in self.children:
            if isinstance(child, Item):
                yield child

    def properties(self) -> Iterator[Item]:
        """All items that overriding properties can set."""
        yield from self.items()
        yield from (child.gives for child in self.children if isinstance(child, Block) and child.gives is not None)
        yield from self.only_beans


def honoured(
    name: str, kind: Kind, description: str, *, required: bool = False, instead: str = "", field: str = "", beans: tuple[str, ...] = ()
) -> Item:
    """The broker honours the item."""
    return Item(name, kind, description, required=required, instead=instead, field=field, beans=beans)


def quiet(name: str, kind: Kind, description: str, reason: str, *, instead: str = "", beans: tuple[str, ...] = ()) -> Item:
    """Accepted without effect and without a warning, because no user would notice a difference."""
    return Item(name, kind, description, Support.IGNORED, reason, None, instead=instead, beans=beans)


def warned(name: str, kind: Kind, description: str, reason: str, unless: tuple[object, ...] = (False,)) -> Item:
    """Accepted without effect, with a warning when it asks for something."""
    return Item(name, kind, description, Support.IGNORED, reason, unless)


def refused(name: str, kind: Kind, description: str, reason: str, unless: tuple[object, ...] = (False,)) -> Item:
    """The start is refused when the item asks for something: without it messages would go elsewhere, or would not survive."""
    return Item(name, kind, description, Support.REFUSED, reason, unless)


def refused_block(name: str, description: str, reason: str, inside: str, harmless: tuple[str, ...] = ()) -> Block:
    """A block that stops the start unless it is empty.  ``inside``: the names below it, with blanks between."""
    return Block(name, description, support=Support.REFUSED, reason=reason, inside=tuple(inside.split()), harmless=harmless)


def flag(name: str, description: str, *, beans: tuple[str, ...] = ()) -> Item:
    """An honoured boolean."""
    return honoured(name, BOOLEAN, description, beans=beans)
