"""Draws every Automat machine of the broker and the client into ``docs/state-machines/``: ``python docs/generate_state_machines.py``.

For each machine there is a ``.dot`` file for Graphviz and an ``.svg`` picture, drawn here so that nothing has to be installed.  In the
picture every state is a column and every transition a line with its input before it and an arrow from the old to the new state.  Inputs
that a state takes without doing anything are listed below.  A test compares the files with the machines.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

ROOT = Path(__file__).resolve().parents[1]
PICTURES = ROOT / "docs" / "state-machines"
SOURCES = (ROOT / "src", ROOT / "clients" / "mqclient" / "src")

MARGIN, INPUTS_WIDTH, COLUMN, HEADER, ROW, NOTE_ROW, LOOP = 12, 190, 76, 58, 22, 16, 14
"""Pixels."""
STYLE = (
    "text { font: 12px monospace; fill: #222 } .state { font: bold 11px sans-serif; text-anchor: middle } .note { font-size: 10px } "
    ".line { stroke: #ccc } .arrow { stroke: #1f5f9f; stroke-width: 1.5; fill: none } .rule { stroke: #eee }"
)


@dataclass(frozen=True, slots=True)
class Transition:
    """``actions`` are the behaviours that run, by name."""

    source: str
    input: str
    target: str
    actions: tuple[str, ...]

    @property
    def ignored(self) -> bool:
        """Nothing happens."""
        return self.source == self.target and not self.actions


@dataclass(frozen=True, slots=True)
class Machine:
    """``name`` is where its constructor is (``package.module.function``); the first state is the initial one."""

    name: str
    states: tuple[str, ...]
    transitions: tuple[Transition, ...]


def modules_with_machines() -> Iterator[str]:
    """The dotted names of the modules that build a machine."""
    for source in SOURCES:
        for path in sorted(source.rglob("*.py")):
            if "TypeMachineBuilder(" in path.read_text(encoding="utf-8"):
                yield ".".join(path.relative_to(source).with_suffix("").parts)


def machines() -> Iterator[Machine]:
    """Every machine, described."""
    for name in modules_with_machines():
        contents = vars(importlib.import_module(name))
        for variable, value in contents.items():
            if hasattr(value, "__automat_automaton__"):
                yield describe(f"{name}.{variable}", value, contents)


def describe(name: str, machine: Any, contents: dict[str, Any]) -> Machine:
    """``contents`` are the names in the machine's module: states come in the order in which they stand there."""
    table = machine.__automat_automaton__
    listed = [value.name for value in contents.values() if any(value is state for state in table.states())]
    known = sorted(state.name for state in table.states())
    states = list(dict.fromkeys([table.initialState.name, *listed, *known]))
    transitions = [
        Transition(source.name, str(taken), target.name, tuple(_actions(outputs)))
        for source, taken, target, outputs in table.allTransitions()
    ]
    transitions.sort(key=lambda each: (states.index(each.source), states.index(each.target), each.input))
    return Machine(name, tuple(states), tuple(transitions))


def _actions(outputs: Any) -> Iterator[str]:
    for output in outputs:
        method = getattr(output, "method", None)
        if method is not None and "<locals>" not in method.__qualname__:
            yield method.__name__


def dot(machine: Machine) -> str:
    """The text for Graphviz; inputs that are ignored are left out."""
    lines = [f'digraph "{machine.name}" {{', "  rankdir=LR;", "  node [shape=box, style=rounded];", "  start [shape=point];"]
    lines += [f'  "{state}";' for state in machine.states]
    lines.append(f'  start -> "{machine.states[0]}";')
    drawn = [each for each in machine.transitions if not each.ignored]
    for (source, target), group in groupby(drawn, key=lambda each: (each.source, each.target)):
        label = "\\n".join(" / ".join([each.input, *each.actions]) for each in group)
        lines.append(f'  "{source}" -> "{target}" [label="{label}"];')
    return "\n".join([*lines, "}", ""])


def svg(machine: Machine) -> str:
    """The picture."""
    drawn = [each for each in machine.transitions if not each.ignored]
    notes = list(_notes(machine))
    columns = {state: MARGIN + INPUTS_WIDTH + COLUMN * index + COLUMN // 2 for index, state in enumerate(machine.states)}
    width = MARGIN * 2 + INPUTS_WIDTH + COLUMN * len(columns)
    bottom = MARGIN + HEADER + ROW * len(drawn)
    height = bottom + MARGIN * 2 + NOTE_ROW * len(notes)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">',
        f"<title>{escape(machine.name)}</title>",
        f"<style>{STYLE}</style>",
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0 L8 4 L0 8 z" fill="#1f5f9f"/></marker></defs>',
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
    ]
    for state, x in columns.items():
        parts += _header(state, x, bottom)
    for index, transition in enumerate(drawn):
        y = MARGIN + HEADER + ROW * index + ROW // 2
        if index and drawn[index - 1].source != transition.source:
            parts.append(f'<line class="rule" x1="{MARGIN}" y1="{y - ROW // 2}" x2="{width - MARGIN}" y2="{y - ROW // 2}"/>')
        parts.append(f'<text x="{MARGIN}" y="{y + 4}">{escape(transition.input)}</text>')
        parts += _arrow(columns[transition.source], columns[transition.target], y)
    for index, note in enumerate(notes):
        parts.append(f'<text class="note" x="{MARGIN}" y="{bottom + MARGIN + NOTE_ROW * (index + 1)}">{escape(note)}</text>')
    return "\n".join([*parts, "</svg>", ""])


def _header(state: str, x: int, bottom: int) -> Iterator[str]:
    words = state.split()
    for index, word in enumerate(words):
        yield f'<text class="state" x="{x}" y="{MARGIN + HEADER - 12 - 13 * (len(words) - 1 - index)}">{escape(word)}</text>'
    yield f'<line class="line" x1="{x}" y1="{MARGIN + HEADER - 6}" x2="{x}" y2="{bottom}"/>'


def _arrow(start: int, end: int, y: int) -> Iterator[str]:
    yield f'<circle cx="{start}" cy="{y}" r="3" fill="#1f5f9f"/>'
    if start == end:
        yield f'<path class="arrow" d="M{start} {y} h{LOOP} v6 h-{LOOP - 2}" marker-end="url(#tip)"/>'
    else:
        yield f'<path class="arrow" d="M{start} {y} H{end - 2 if end > start else end + 2}" marker-end="url(#tip)"/>'


def _notes(machine: Machine) -> Iterator[str]:
    for state in machine.states:
        ignored = [each.input for each in machine.transitions if each.ignored and each.source == state]
        if ignored:
            yield f"ignored in {state}: {', '.join(ignored)}"


def pictures() -> dict[str, str]:
    """What the folder must hold: text by file name."""
    found: dict[str, str] = {}
    for machine in machines():
        found[f"{machine.name}.dot"] = dot(machine)
        found[f"{machine.name}.svg"] = svg(machine)
    return found


def main() -> None:
    fresh = pictures()
    PICTURES.mkdir(exist_ok=True)
    for path in PICTURES.iterdir():
        if path.name not in fresh:
            path.unlink()
    for name, text in fresh.items():
        (PICTURES / name).write_text(text, encoding="utf-8")
        print(PICTURES / name)


if __name__ == "__main__":
    sys.path[:0] = [str(source) for source in SOURCES]
    main()
