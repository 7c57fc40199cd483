"""Names and conditions of older playbooks, in the words of today: names in templates are exchanged token by token, as
Jinja2 cuts them, so that text and members of the same name stay.
"""

import re
from collections.abc import Mapping
from typing import Final

from jinja2 import Environment, TemplateSyntaxError

from statewright.jsonval.values import JsonObject, JsonValue

_JINJA: Final = Environment(autoescape=False, keep_trailing_newline=True)  # noqa: S701 - it only cuts texts into tokens
_BRACED: Final = re.compile(r"\s*\{\{(?P<inner>(?:(?!\}\}).)*)\}\}\s*", re.DOTALL)
_SKIPPED: Final = frozenset(("whitespace", "comment"))

Renaming = Mapping[str, str]
"""What stands for a name, or for a name and one of its members (``this.data``)."""

OUTCOME_NAMES: Final[Renaming] = {
    "response": "outcome.result",
    "result": "outcome.result",
    "error": "outcome.error",
    "this": "outcome",
}
"""In conditions and values that are about what a step has come to."""
POLICY_NAMES: Final[Renaming] = {
    **OUTCOME_NAMES,
    "attempt": "_attempt",
    "status_code": "outcome.http.status",
}
"""In conditions about what a task has come to."""
PREVIOUS_NAMES: Final[Renaming] = {
    "response": "_prev",
    "result": "_prev",
    "this.data": "_prev",
    "this": "_prev",
}
"""In a task that stores what the one before it has come to."""


def rename(
    value: JsonValue, renaming: Renaming, known: frozenset[str] = frozenset(), *, bare: bool = False
) -> JsonValue:
    """A value whose templates have other names; those of ``known`` are the playbook's own and stay. ``bare``: a text
    without braces is an expression.
    """
    if isinstance(value, dict):
        return {name: rename(member, renaming, known, bare=name in ("when", "expr")) for name, member in value.items()}
    if isinstance(value, list):
        return [rename(item, renaming, known) for item in value]
    if not isinstance(value, str) or not (bare or "{{" in value or "{%" in value):
        return value
    chosen = {name: new for name, new in renaming.items() if name.partition(".")[0] not in known}
    if "{{" in value or "{%" in value:
        return _rename_text(value, chosen)
    return _rename_text(f"{{{{{value}}}}}", chosen)[2:-2]


def _rename_text(text: str, renaming: Renaming) -> str:
    try:
        tokens = [(kind, piece) for _, kind, piece in _JINJA.lex(text)]
    except TemplateSyntaxError:
        return text  # what is wrong with it is found where it is read
    if "".join(piece for _, piece in tokens) != text:
        return text  # line breaks that Jinja2 writes otherwise
    written, index = list[str](), 0
    while index < len(tokens):
        length, piece = _replace(tokens, index, renaming)
        written.append(piece)
        index += length
    return "".join(written)


def _replace(tokens: list[tuple[str, str]], index: int, renaming: Renaming) -> tuple[int, str]:
    """How many tokens from ``index`` become which text."""
    kind, piece = tokens[index]
    if kind != "name" or _is_part(tokens, index):
        return 1, piece
    if [piece for _, piece in tokens[index + 1 : index + 2]] == ["."] and tokens[index + 2 : index + 3]:
        both = f"{piece}.{tokens[index + 2][1]}"
        if both in renaming:
            return 3, renaming[both]
    return 1, renaming.get(piece, piece)


def _is_part(tokens: list[tuple[str, str]], index: int) -> bool:
    """Whether a name is a member of something, a filter or test, or names an argument."""
    before, after = index - 1, index + 1
    while before >= 0 and tokens[before][0] in _SKIPPED:
        before -= 1
    while after < len(tokens) and tokens[after][0] in _SKIPPED:
        after += 1
    is_argument = after < len(tokens) and tokens[after][1] == "="
    return is_argument or (before >= 0 and tokens[before][1] in (".", "|", "is"))


def read_expression(condition: JsonValue) -> str | None:
    """The expression of a condition, without braces; ``None`` if it is not one expression."""
    if isinstance(condition, bool):
        return "true" if condition else "false"
    if not isinstance(condition, str):
        return None
    braced = _BRACED.fullmatch(condition)
    if braced is not None:
        return braced["inner"].strip()
    return None if "{{" in condition or "{%" in condition or not condition.strip() else condition.strip()


def join_conditions(holds: str | None, fails: list[str]) -> str:
    """The condition that one expression holds and none of the others does."""
    parts = [*([] if holds is None else [f"({holds})"]), *(f"not ({other})" for other in fails)]
    return "{{ " + (" and ".join(parts) or "true") + " }}"


def list_variables(document: JsonObject, initial: JsonObject) -> dict[str, str]:
    """What stands for each member of ``vars``: those that begin with a value are members of ``workload``, and those
    that steps write are members of ``ctx``.
    """
    written = _find_written(document)
    renaming = {f"vars.{name}": f"workload.{name}" for name in initial}
    for name in written:
        renaming[f"vars.{name}"] = f"(ctx.{name} | default(workload.{name}))" if name in initial else f"ctx.{name}"
    return renaming


def _find_written(document: JsonObject) -> list[str]:
    """The names that steps write to ``vars``."""
    found, pending = dict[str, None](), list[JsonValue]([document.get("workflow")])
    while pending:
        value = pending.pop()
        if isinstance(value, dict):
            for name, member in value.items():
                if name in ("vars", "set_ctx") and isinstance(member, dict):
                    found.update(dict.fromkeys(member))
                pending.append(member)
        elif isinstance(value, list):
            pending.extend(value)
    return list(found)


def list_own_names(document: JsonObject) -> frozenset[str]:
    """The names that a playbook gives something: its steps, tasks and elements, and members of its workload."""
    workload = document.get("workload")
    found, pending = set(workload if isinstance(workload, dict) else ()), [document.get("workflow")]
    while pending:
        value = pending.pop()
        if isinstance(value, dict):
            found |= {
                one for name in ("step", "name", "iterator", "element") if isinstance(one := value.get(name), str)
            }
            pending.extend(value.values())
        elif isinstance(value, list):
            pending.extend(value)
    return frozenset(found)
