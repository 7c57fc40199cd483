"""The help of commands stays as it is, but for what is meant to change (docs/reference/cli.md).

``help_of_commands.txt`` has what ``--help`` says of each of them, without frames. Run this file as a program to write
it anew.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import typer

from statewright.cli.main import program
from tests.commands import CommandRunner

KEPT: Final = Path(__file__).with_name("help_of_commands.txt")
PAGE: Final = Path(__file__).parents[2] / "docs/reference/cli.md"
WIDE: Final = {"COLUMNS": "1000", "TERMINAL_WIDTH": "1000", "NO_COLOR": "1", "TERM": "dumb"}


def test_the_help_of_commands_is_what_was_kept() -> None:
    assert list(list_lines()) == KEPT.read_text(encoding="utf-8").splitlines()


def test_the_page_of_the_command_line_names_every_command() -> None:
    """In one row or paragraph with its group: "`keys list`, `rotate`" names both."""
    page = re.sub(r"\n(?=\|)", "\n\n", PAGE.read_text(encoding="utf-8"))
    named = [re.findall(r"`([^`]+)`", chunk) for chunk in page.split("\n\n")]
    commands = [words for words in list_commands(typer.main.get_command(program), ()) if words]
    assert [words for words in commands if not any(names_command(spans, words) for spans in named)] == []


def names_command(spans: list[str], words: tuple[str, ...]) -> bool:
    group = " ".join(words[:-1])
    return any(span.startswith(group) for span in spans) and any(words[-1] in span.split() for span in spans)


def list_lines() -> Iterator[str]:
    for words in list_commands(typer.main.get_command(program), ()):
        yield f"# {' '.join(('statewright', *words))}"
        told = CommandRunner().invoke(program, [*words, "--help"], env=WIDE).output
        yield from filter(None, (re.sub(r"[\s─│╭╮╰╯]+", " ", line).strip() for line in told.splitlines()))


def list_commands(command: Any, words: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    yield words
    for word, part in getattr(command, "commands", {}).items():
        yield from list_commands(part, (*words, word))


if __name__ == "__main__":
    KEPT.write_text("".join(f"{line}\n" for line in list_lines()), encoding="utf-8")
