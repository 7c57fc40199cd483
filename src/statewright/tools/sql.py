"""Texts of SQL as public playbooks have them, for both databases: statements apart, and parameters by number.

Parameters are bound, never put into the text. They are written ``$1``, ``%s`` or ``?`` with a list in ``params``, and
``:name``, ``$name`` or ``%(name)s`` with a mapping. What stands in quotes or in comments is left alone.
"""

import re
from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import Struct

from statewright.jsonval.values import JsonObject, JsonValue
from statewright.tools.tasks import get_first, read_texts, refuse_fields

_TOKEN: Final = re.compile(
    r"""(?P<kept> '(?:[^']|'')*' | "(?:[^"]|"")*" | --[^\n]* | /\*.*?\*/ | :: )
      | (?P<tag>\$(?:[A-Za-z_]\w*)?\$).*?(?P=tag)
      | (?P<end> ; )
      | %\((?P<percent>\w+)\)s
      | (?<![\w:]):(?P<colon>[A-Za-z_]\w*)
      | \$(?P<dollar>[A-Za-z_]\w*)
      | \$(?P<number>\d+)
      | (?P<next> %s | \? )""",
    re.VERBOSE | re.DOTALL,
)


class Statement(Struct, frozen=True, kw_only=True):
    """One statement, whose parameters are ``$1`` …; they are bound to these values."""

    text: str
    values: tuple[JsonValue, ...] = ()


class StatementResult(Struct, frozen=True, kw_only=True):
    """What a statement returned. ``row_count``: of rows returned, or else touched."""

    rows: Sequence[dict[str, object]]
    row_count: int
    columns: Sequence[str]


def read_statements(fields: JsonObject) -> list[Statement]:
    """The statements of a task, at least one. Raises :class:`Unfit`."""
    name, given = get_first(fields, "command", "commands", "query", "sql")
    params = fields.get("params")
    if params is not None and not isinstance(params, dict | list):
        raise refuse_fields("params must be a list, or a mapping of names")
    found = [one for text in read_texts(name, given) for one in _split(text, params)]
    if not found:
        raise refuse_fields(f"{name} must have a statement")
    return found


def _split(text: str, params: "list[JsonValue] | JsonObject | None") -> list[Statement]:
    """The statements of a text that are more than white space and comments."""
    found: list[Statement] = []
    begun = _Begun(params)
    at = 0
    for token in _TOKEN.finditer(text):
        begun.take_text(text[at : token.start()])
        at = token.end()
        if token["end"]:
            found.append(begun.end())
            begun = _Begun(params)
        else:
            begun.take_token(token)
    begun.take_text(text[at:])
    return [one for one in (*found, begun.end()) if one.text]


class _Begun:
    """A statement of which there is a part."""

    def __init__(self, params: "list[JsonValue] | JsonObject | None") -> None:
        self._params = params
        self._parts: list[str] = []
        self._values: list[JsonValue] = []
        self._places = dict[str, int]()
        self._has_words = False
        self._next = 0

    def take_text(self, text: str) -> None:
        self._parts.append(text)
        self._has_words = self._has_words or bool(text.strip())

    def take_token(self, token: "re.Match[str]") -> None:
        """A piece in quotes, a comment, or a parameter."""
        name = token["percent"] or token["colon"] or token["dollar"]
        if isinstance(self._params, dict) and name:
            self._parts.append(f"${self._find_place(name, self._params)}")
        elif isinstance(self._params, list) and (token["next"] or token["number"]):
            self._next += 1 if token["next"] else 0
            place = int(token["number"]) if token["number"] else self._next
            self._parts.append(f"${self._find_place(str(place), self._name_places(self._params))}")
        else:
            self._parts.append(token[0])
        self._has_words = self._has_words or not token[0].startswith(("--", "/*"))

    @staticmethod
    def _name_places(params: list[JsonValue]) -> JsonObject:
        return {str(place): value for place, value in enumerate(params, 1)}

    def _find_place(self, name: str, params: JsonObject) -> int:
        """The number of a parameter in this statement."""
        if name not in params:
            raise refuse_fields(f"params has no {name}, which the statement names")
        if name not in self._places:
            self._values.append(params[name])
            self._places[name] = len(self._values)
        return self._places[name]

    def end(self) -> Statement:
        text = "".join(self._parts).strip() if self._has_words else ""
        return Statement(text=text, values=tuple(self._values))


def encode_results(results: Sequence[StatementResult]) -> bytes:
    """The result of a task: ``rows``, ``row_count`` and ``columns`` of its last statement, and those of each as
    ``command_0`` …
    """
    last = results[-1]
    document: dict[str, object] = {"rows": last.rows, "row_count": last.row_count, "columns": last.columns}
    document |= {f"command_{place}": result for place, result in enumerate(results)}
    return _ENCODER.encode(document)


_ENCODER: Final = msgspec.json.Encoder(enc_hook=str, decimal_format="number")
"""Values of databases that JSON has no form for become text."""
