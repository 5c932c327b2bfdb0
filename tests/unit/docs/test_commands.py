"""The commands that the pages show exist, with the options that they show."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from itertools import product

import click
from twisted.python import usage
from twisted.trial.unittest import SynchronousTestCase

from mqbroker.cli.root import root
from mqbroker.tap import Options
from tests.unit.docs.pages import CODE, ROOT, blocks, pages, prose, read

SERVICE_ACTIONS = {"start", "stop", "restart", "force-stop", "status"}
PLACEHOLDER = re.compile(r"[A-Z…|.]")


def shown_commands(text: str) -> Iterator[list[str]]:
    """The words of every command at a prompt."""
    for block in blocks(text, "console"):
        for line in block.splitlines():
            if line.startswith("$ "):
                yield shlex.split(line[2:], comments=True)


def resolve(words: list[str]) -> tuple[click.Command, click.Context, list[str]]:
    """The command that ``words`` name, and what is left of them.  Raises UsageError when there is none."""
    command: click.Command = root
    context = click.Context(root, info_name="mqbroker")
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        found = command.get_command(context, words[0])
        if found is None:
            raise click.UsageError(f"there is no command {words[0]}")
        command, context, words = found, click.Context(found, info_name=words[0], parent=context, **found.context_settings), words[1:]
    return command, context, words


def problem(words: list[str]) -> str | None:
    """What is wrong with a command line; None when nothing is, or when it is not ours."""
    program, arguments = words[0].rpartition("/")[2], words[1:]
    try:
        if program == "mqbroker":
            command, context, rest = resolve(arguments)
            if isinstance(command, click.Group) and "--help" not in rest:
                return "a command is missing"
            command.make_context(context.info_name, rest, parent=context.parent)
        elif program == "mqbroker-service":
            return None if set(arguments) <= SERVICE_ACTIONS else "unknown action"
        elif program == "twistd" and "mqbroker" in arguments:
            Options().parseOptions(arguments[arguments.index("mqbroker") + 1 :])  # type: ignore[no-untyped-call]
        elif program == "make":
            targets = [word for word in arguments if "=" not in word]
            return next((f"no target {name}" for name in targets if not re.search(rf"(?m)^{name}:", read("Makefile"))), None)
    except click.exceptions.Exit:
        return None
    except (click.UsageError, usage.UsageError) as error:
        return str(error) or type(error).__name__
    return None


def inline_problem(words: list[str]) -> str | None:
    """The same for a command in running text: what is needed may be missing, and placeholders end it."""
    known = [word for word in words if not PLACEHOLDER.search(word)]
    try:
        command, _, rest = resolve(known)
    except click.UsageError as error:
        return str(error)
    options = {"-h", "--help"}.union(*(option.opts + option.secondary_opts for option in command.params))
    return next((f"no option {word}" for word in rest if word.startswith("-") and word.partition("=")[0] not in options), None)


class CommandTests(SynchronousTestCase):
    def test_commands_at_a_prompt(self) -> None:
        wrong = [
            f"{path.relative_to(ROOT)}: {shlex.join(words)}: {found}"
            for path in pages()
            for words in shown_commands(path.read_text(encoding="utf-8"))
            if (found := problem(words)) is not None
        ]
        self.assertEqual(wrong, [])

    def test_commands_in_running_text(self) -> None:
        wrong = []
        for path in pages():
            for code in CODE.findall(prose(path.read_text(encoding="utf-8"))):
                words = code.split()
                if words[0] not in ("mqbroker", "bin/mqbroker"):
                    continue
                for variant in product(*(word.split("|") for word in words[1:])):
                    found = inline_problem(list(variant))
                    if found is not None:
                        wrong.append(f"{path.relative_to(ROOT)}: {code}: {found}")
        self.assertEqual(wrong, [])

    def test_wrong_commands_are_noticed(self) -> None:
        for line in (
            "mqbroker queue sat",
            "mqbroker queue stat --nmae x",
            "mqbroker queue",
            "/x/bin/mqbroker data exp --output",
            "twistd -n mqbroker --confg x",
            "mqbroker-service go",
            "make nothing",
        ):
            self.assertIsNotNone(problem(line.split()), line)
        for line in ("queue sat", "run --instnace DIR"):
            self.assertIsNotNone(inline_problem(line.split()), line)
        self.assertIsNone(inline_problem(["check", "config", "FILE"]))

    def test_every_command_is_in_the_page_about_them(self) -> None:
        page = read("docs", "cli.md")
        listed = {name for row in page.splitlines() if row.startswith("| `") for name in CODE.findall(row.split("|")[1])}
        words = {word for name in listed for word in name.split()}
        missing = {name for name in root.list_commands(click.Context(root)) if name not in words | {"help", "version"}}
        self.assertEqual(missing, set())
