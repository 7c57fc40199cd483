"""The truth tables of conditions, asked over HTTP
(docs/reference/conditions.md#which-stored-values-an-operator-can-match, docs/reference/conditions.md#examples).
"""

import asyncio
from collections.abc import Iterator
from itertools import product
from uuid import uuid4

import pytest

from statewright.conditions.syntax import OPERATORS, RANGES
from statewright.ids import model_id
from statewright.jsonval.codec import encode
from tests.builders import Json
from tests.database import connected
from tests.integration.search.finding import asked, simple
from tests.service import RunningService, done
from tests.unit.conditions.builders import json
from tests.unit.conditions.reference import EVERYTHING, KINDS, OPERANDS
from tests.unit.conditions.test_truth_tables import MATCHABLE
from tests.unit.conditions.worked_examples import EXAMPLES

SAMPLES = {
    "INTEGER": "1",
    "LONG": "4294967296",
    "DOUBLE": "1.5",
    "UNBOUND_DECIMAL": "0.12345678901234567890123456789",
    "STRING": '"text"',
    "BOOLEAN": "true",
    "ZONED_DATE_TIME": '"2031-05-06T06:00:00Z"',
    "LOCAL_DATE_TIME": '"2031-05-06T06:00:00"',
    "LOCAL_DATE": '"2031-05-06"',
    "LOCAL_TIME": '"10:30"',
    "YEAR": '"2031"',
}
"""A value from which a model learns the type."""

STORE = """
    INSERT INTO entity (tenant, id, model, state, transaction_id, entry_transaction_id, created_at, valid_from,
                        transition, workflow, workflow_revision, attributed_id, attributed_kind, executor_id,
                        executor_kind, document)
    SELECT $1, gen_random_uuid(), $2, 'NEW', gen_random_uuid(), gen_random_uuid(), 1, 1, '', '', 0, '', 'user', '',
           'user', document
      FROM unnest($3::jsonb[]) AS document
"""
"""Directly, since no model accepts all of these values."""

STORED = [value for values in KINDS.values() for value in values]


class Tables:
    """A tenant with a model for each set of declared types, and the same entities in each."""

    def __init__(self, service: RunningService) -> None:
        self.tenant = f"tenant-{uuid4().hex[:12]}"
        self.api = service.api(self.tenant)
        self._database = service.database
        self._models = set[str]()

    def model(self, types: str) -> str:
        """A model whose field ``v`` is declared so."""
        name = types.replace(" ", "-").lower()
        if name not in self._models:
            for declared in types.split():
                self.api.import_model(f"{name}/1", f'{{"v": {SAMPLES[declared]}}}')
            asyncio.run(self._fill(name))
            self._models.add(name)
        return name

    async def _fill(self, name: str) -> None:
        values = [json(stored) for *_, stored, _ in EXAMPLES] + STORED
        texts = dict.fromkeys([*(encode({"v": value}).decode() for value in values), "{}"])
        async with connected(self._database) as connection:
            await connection.execute(STORE, self.tenant, model_id(name, 1), list(texts))

    def found(self, types: str, operator: str, operand: Json) -> list[Json]:
        """The documents that match."""
        path = f"/search/{self.model(types)}/1"
        answer = done(asked(self.api, encode(simple("$.v", operator, operand)), path=path))
        return [envelope["data"] for envelope in answer]


@pytest.fixture(scope="module")
def tables(service: RunningService) -> Iterator[Tables]:
    return Tables(service)


@pytest.mark.parametrize(("operator", "operand", "declared", "stored", "expected"), EXAMPLES)
def test_worked_examples_over_http(
    tables: Tables, operator: str, operand: str, declared: str, stored: str, expected: bool
) -> None:
    documents = [
        encode(document["v"]) for document in tables.found(declared, operator, json(operand)) if "v" in document
    ]
    assert (as_answered(stored) in documents) is expected


def as_answered(stored: str) -> bytes:
    """A JSON text as an answer spells it, having been read as floats by a client who does not care."""
    import json as stdlib

    return stdlib.dumps(stdlib.loads(stored), separators=(",", ":")).encode()


@pytest.mark.parametrize("operator", OPERATORS)
def test_an_operator_finds_only_values_of_its_kinds(tables: Tables, operator: str) -> None:
    operands: list[Json] = [list(pair) for pair in product(OPERANDS, repeat=2)] if operator in RANGES else OPERANDS
    kinds = set[str]()
    for operand in operands:
        kinds |= {kind_of(document) for document in tables.found(EVERYTHING, operator, operand)}
    expected = MATCHABLE.get(operator, {"string"})
    assert kinds == expected | ({"absent"} if operator == "IS_NULL" else set())


def kind_of(document: Json) -> str:
    if "v" not in document:
        return "absent"
    kinds = {type(None): "null", bool: "boolean", str: "string", list: "array", dict: "object"}
    return kinds.get(type(document["v"]), "number")
