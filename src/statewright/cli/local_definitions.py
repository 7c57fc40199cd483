"""What the commands share that run definitions in this process: texts of definitions, JSON of options, and files with
functions of Python.
"""

import json
import runpy
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from statewright.cli.client import fail

if TYPE_CHECKING:
    from statewright.jsonval.values import JsonValue

STANDARD_INPUT: Final = "-"


def read_definition(file: str) -> str:
    """The text of a file, or of standard input. Ends the command if it cannot be read."""
    try:
        return sys.stdin.read() if file == STANDARD_INPUT else Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as unreadable:
        fail(f"{file} cannot be read: {getattr(unreadable, 'strerror', None) or unreadable}")


def run_python_file(file: Path) -> Mapping[str, Any]:
    """The names that a file of Python defines; it may import its neighbours. Ends the command if it cannot be run."""
    if not file.is_file():
        fail(f"{file} cannot be read: there is no such file")
    sys.path.insert(0, str(file.resolve().parent))
    try:
        return runpy.run_path(str(file))
    except Exception as error:
        fail(f"{file} cannot be run: {type(error).__name__}: {error}")


def parse_option(text: str, option: str) -> "JsonValue":
    """The JSON of an option. Ends the command if it is none."""
    from statewright.jsonval.codec import MalformedJson, decode

    try:
        return decode(text)
    except MalformedJson as defect:
        fail(f"{option} is no JSON: {defect}")


def to_plain(value: Any) -> Any:
    """A JSON value as Python's own decoder gives it: what functions of users expect."""
    from statewright.jsonval.codec import encode

    return json.loads(encode(value))


def to_value(value: Any) -> "JsonValue":
    """What a function returned, as a JSON value. Raises ``TypeError`` or ``ValueError`` if it is none."""
    from statewright.jsonval.codec import decode

    return decode(json.dumps(value, allow_nan=False))


def take_answer(answer: "JsonValue") -> "JsonValue":
    """The answer of a stub, of ``{"$each": […]}`` the next one, of which the last stays."""
    if isinstance(answer, dict) and isinstance(turns := answer.get("$each"), list) and turns:
        return turns.pop(0) if len(turns) > 1 else turns[0]
    return answer


def print_json(value: "JsonValue") -> None:
    """One line of JSON."""
    from statewright.jsonval.codec import encode

    sys.stdout.write(encode(value).decode() + "\n")
