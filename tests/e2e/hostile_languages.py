"""How hostile expressions reach a service, in each language that it evaluates, and which there are."""

import json
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Final
from uuid import uuid4

import httpx

from statewright.jsonval.codec import decode_stored, encode
from statewright.jsonval.values import JsonObject, JsonValue
from tests import hostile_conditions, hostile_expressions, hostile_guards, hostile_templates
from tests.hostile_documents import DOCUMENT
from tests.service import Api, eventually

GENERATED: Final = 60
"""Of each language."""
MAX_WAIT_S: Final = 60
"""For the end of an evaluation."""
STATUSES: Final = frozenset(("completed", "success", "failed", "finished", "cancelled", "partial"))
"""Of instances and executions that have ended."""


@dataclass(frozen=True)
class Size:
    """How large the values may be that shapes work on."""

    chars: int
    items: int

    def cut(self, value: JsonValue) -> JsonValue:
        """A part of it."""
        if isinstance(value, dict):
            return dict(islice(value.items(), self.items))
        if isinstance(value, str):
            return value[: self.chars]
        return value[: self.items] if isinstance(value, list) else value

    def pick(self, shape: str, values: Mapping[str, JsonValue]) -> bytes:
        """An object of the values that a shape names."""
        names = set(re.findall(r"\w+", shape))
        return encode({name: self.cut(value) for name, value in values.items() if name in names})


@dataclass(frozen=True)
class Language:
    """``submit`` sends an expression, with values to work on, and waits until it is over: evaluated, refused or ended.
    It gets the interface as one tenant sees it, without a context path and with it.
    """

    submit: Callable[[Api, Api, str, bytes], None]
    harmless: str
    """One that costs next to nothing."""
    known: Collection[str]
    """Those that once stopped the service, or are like them: they always run."""
    generated: Collection[str]
    others: Collection[str]
    values: Mapping[str, JsonValue]
    """What shapes may name."""


def submit_template(v1: Api, _: Api, shape: str, __: bytes) -> None:
    """As the condition of an arc, or with statements as a field of an HTTP task."""
    source = hostile_templates.inline_workload(shape)
    arcs = {"arcs": [{"step": "end", "when": source}]}
    field = {"tool": {"kind": "http", "method": "GET", "url": f"http://127.0.0.1:1/{source}"}}
    first = field if "{%" in source else {"next": arcs}
    name = _make_name()
    text = {"metadata": {"name": name}, "workflow": [{"step": "begin", **first}, {"step": "end"}]}
    if _is_accepted(v1.post("/v1/playbooks", json.dumps(text))):
        begun = v1.post("/v1/executions", {"path": name})
        if _is_accepted(begun):
            _wait_for_end(v1, f"/v1/executions/{_read(begun)['id']}")


def submit_expression(v1: Api, _: Api, shape: str, values: bytes) -> None:
    """As a transformation of an instance."""
    name = _make_name()
    compute = {"id": "t", "name": "t", "type": "TRANSFORMATION", "transformations": {"out": f"${{{shape}}}"}}
    steps = [{**compute, "nextStep": "end"}, {"id": "end", "name": "end", "type": "END"}]
    if _is_accepted(v1.post("/v1/definitions", {"id": name, "name": name, "steps": steps})):
        begun = v1.post("/v1/instances", b'{"definitionId": "%s", "variables": %s}' % (name.encode(), values))
        if _is_accepted(begun):
            _wait_for_end(v1, f"/v1/instances/{_read(begun)['id']}")


def submit_guard(v1: Api, _: Api, shape: str, values: bytes) -> None:
    """As the guard of the only task of a flow: when it has been evaluated the task waits for a worker, or the flow has
    ended.
    """
    name = _make_name()
    if _is_accepted(v1.post("/v1/flows/definitions", {"id": name, "source": f"? `{shape}` check"})):
        begun = v1.post("/v1/flows/instances", b'{"definitionId": "%s", "input": %s}' % (name.encode(), values))
        if _is_accepted(begun):
            path = f"/v1/flows/instances/{_read(begun)['id']}"
            eventually(lambda: _has_ended(v1, path) or _list_entries(v1, path), within_s=MAX_WAIT_S)


def submit_condition(_: Api, api: Api, shape: str, values: bytes) -> None:
    """As a criterion of a transition for a new entity, a search, and a deletion, in a model of its own."""
    model = f"{_make_name()}/1"
    api.a_model(model=model, sample=_SAMPLE)
    go = {"name": "go", "next": "B", "manual": False, "criterion": json.loads(shape)}
    states = {"A": {"transitions": [go]}, "B": {"transitions": []}}
    workflow = {"version": "1", "name": "w", "initialState": "A", "active": True, "states": states}
    imported = api.post(f"/model/{model}/workflow/import", {"importMode": "MERGE", "workflows": [workflow]})
    if _is_accepted(imported):
        created = api.post(f"/entity/JSON/{model}", values)
        assert created.status_code in {200, 400, 422}, created.text
    for method, path in (("POST", f"/search/direct/{model}"), ("DELETE", f"/entity/{model}")):
        answer = api.request(method, path, shape)
        assert answer.status_code in {200, 400, 404, 422}, answer.text


def _make_name() -> str:
    return f"hostile-{uuid4().hex}"


def _is_accepted(answer: httpx.Response) -> bool:
    assert answer.status_code in {200, 201, 400, 422}, answer.text
    return answer.status_code < 400


def _read(answer: httpx.Response) -> JsonObject:
    """Some results are whole numbers of more digits than the usual decoder reads."""
    value = decode_stored(answer.content)
    assert isinstance(value, dict), answer.text
    return value


def _has_ended(v1: Api, path: str) -> bool:
    return str(_read(v1.get(path))["status"]).lower() in STATUSES


def _list_entries(v1: Api, path: str) -> list[JsonValue]:
    entries = _read(v1.get(f"{path}/history"))["items"]
    assert isinstance(entries, list), entries
    return entries


def _wait_for_end(v1: Api, path: str) -> None:
    eventually(partial(_has_ended, v1, path), within_s=MAX_WAIT_S)


def _write(shapes: Collection[JsonObject]) -> list[str]:
    return [encode(shape).decode() for shape in shapes]


_FIELDS: Final = (
    "ab", "cased", "decimals", "many", "numbers", "plain", "square", "texts", "times", "whole", "wide",
)  # fmt: skip
_SAMPLE: Final = Size(1_000, 50).pick(" ".join(_FIELDS), hostile_conditions.STORED).decode()
_CONDITIONS: Final = _write(hostile_conditions.list_shapes())

LANGUAGES: Final[dict[str, Language]] = {
    "templates": Language(
        submit_template,
        "{{ 1 }}",
        hostile_templates.KNOWN,
        hostile_templates.make_shapes(GENERATED),
        [cases[0] for cases in (*hostile_templates.LOOPS.values(), *hostile_templates.WORST.values())],
        {},
    ),
    "expressions": Language(
        submit_expression,
        "1",
        hostile_expressions.KNOWN,
        [*hostile_expressions.generate_shapes(23, GENERATED)],
        [calls[-1] for calls in hostile_expressions.WORST.values()],
        hostile_expressions.VARIABLES,
    ),
    "guards": Language(
        submit_guard,
        "$.none",
        [guards[-1] for guards in hostile_guards.WORST.values()],
        [*hostile_guards.generate_guards(23, GENERATED)],
        hostile_guards.PARTS,
        DOCUMENT,
    ),
    "conditions": Language(
        submit_condition,
        encode(hostile_conditions.simple("$.none", "EQUALS", 1)).decode(),
        _write([*hostile_conditions.PARTS.values()]),
        _write([*hostile_conditions.generate_conditions(23, GENERATED)]),
        _CONDITIONS[:: len(_CONDITIONS) // 100],
        {name: hostile_conditions.STORED[name] for name in _FIELDS},
    ),
}
