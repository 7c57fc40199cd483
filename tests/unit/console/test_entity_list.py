"""The list of entities: cells, columns, files (docs/console.md#pages)."""

import csv
import io
from decimal import Decimal
from urllib.parse import quote

import pytest

from statewright.console.live import ModelCounts, StateCount
from statewright.console.pages.entities import ROUTES, EntitiesView, EntityNewsView, view_entities, view_entity_news
from statewright.console.pages.model import ModelHead
from statewright.console.request import Action, Form, InvalidField, parse_query
from statewright.console.views.entities import build_cell, find_values, write_csv
from statewright.console.views.records import Envelope
from statewright.jsonval.codec import decode
from tests.unit.console.recorded import a_problem, a_reply

HEAD = ModelHead(name="order", version=1, state="LOCKED")
EXPORT = a_reply(
    {
        "model": {
            "$": {".amount": "DOUBLE", ".customer": "STRING"},
            "$.lines[*]": {"#": "ARRAY_ELEMENT", ".sku": "STRING"},
        }
    }
)
ITEM = decode(
    '{"meta": {"id": "5e1f", "state": "NEW", "creationDate": "2031-05-06T00:00:00Z", "lastUpdateTime": "x"},'
    ' "data": {"amount": 0.10, "customer": "=1+1"}}'
)

STATE = '{"type":"lifecycle","field":"state","operatorType":"EQUALS","value":"NEW"}'
AMOUNT = '{"type":"simple","jsonPath":"$.amount","operatorType":"EQUALS","value":1.10}'


def view(query: bytes = b"", found: object = None, counted: object = None) -> EntitiesView:
    reply = a_reply({"items": [ITEM]}) if found is None else found
    data = view_entities("/list", parse_query(query), HEAD, EXPORT, reply, counted).data  # type: ignore[arg-type]
    assert isinstance(data, EntitiesView)
    return data


def test_the_first_fields_with_one_value_are_the_columns():
    assert view().columns == ("$.amount", "$.customer")
    assert view(b"columns=$.lines[*].sku").columns == ("$.lines[*].sku",)


@pytest.mark.parametrize(
    ("document", "path", "expected"),
    [
        ({"a": {"b": 1}}, "$.a.b", [1]),
        ({"a.b": 1}, "$.a.b", [1]),
        ({"a": [{"b": 1}, {"c": 2}, {"b": 3}]}, "$.a[*].b", [1, 3]),
        ({"a": [1, 2]}, "$.a[*]", [1, 2]),
        ({"a": 1}, "$.a.b", []),
        ({"ab": 1}, "$.a", []),
        (None, "$.a", []),
    ],
)
def test_a_path_finds_its_values(document: object, path: str, expected: list[object]):
    assert find_values(document, path) == expected  # type: ignore[arg-type]


def test_numbers_are_shown_as_they_are_stored():
    text = "[0.10, 1E+400, 9007199254740993, 1234567890123456789012345678901234567890]"
    values = decode(text)
    assert isinstance(values, list)
    shown = [build_cell([value]).text for value in values]
    assert shown == ["0.10", "1E+400", "9007199254740993", "1234567890123456789012345678901234567890"]
    assert build_cell([Decimal("1.10")]).kind == "number"


@pytest.mark.parametrize("text", ["=1+1", "+1+1", "-1+1", "@SUM(1)", "\t=1", "\r=1"])
def test_a_spreadsheet_takes_no_value_for_a_formula(text: str):
    item = Envelope(data={"amount": Decimal("-0.10"), "customer": text})
    [_, row] = csv.reader(io.StringIO(write_csv([item], ("$.customer", "$.amount")).decode(), newline=""))
    assert row[-2:] == [f"'{text}", "-0.10"]


def test_the_next_page_keeps_everything_but_its_cursor():
    shown = view(b"sort=$.amount&size=20&after=old", a_reply({"items": [ITEM], "nextCursor": "c/+"}))
    assert shown.next == "?sort=%24.amount&size=20&after=c%2F%2B"
    assert shown.first == "?sort=%24.amount&size=20"


def test_a_heading_sorts_up_then_down_then_not():
    def heading(query: bytes) -> tuple[str, str | None]:
        found = next(each for each in view(query).headings if each.label == "$.amount")
        return found.order, found.href

    assert heading(b"") == ("none", "?sort=%24.amount")
    assert heading(b"sort=$.amount") == ("ascending", "?sort=%24.amount%3Adesc")
    assert heading(b"sort=$.amount:desc") == ("descending", "?")


def test_an_unknown_path_is_named_with_the_nearest_one():
    query = b'q={"type":"simple","jsonPath":"$.amunt","operatorType":"EQUALS","value":1}'
    shown = view(query, a_problem(400, "INVALID_FIELD_PATH"))
    assert shown.unknown == (("$.amunt", "$.amount"),)
    assert shown.problem is not None


@pytest.mark.parametrize("code", ["SEARCH_SHARD_TIMEOUT", "SCAN_BUDGET_EXHAUSTED", "CALL_TIMEOUT"])
def test_a_search_that_gives_up_offers_what_helps(code: str):
    shown = view(found=a_problem(503, code))
    assert shown.problem is not None
    assert [text for _, text in shown.problem.offers] == ["Narrow it", "Declare an index", "Try again"]
    assert shown.is_too_expensive
    assert not view(found=a_problem(503, "STORAGE_UNAVAILABLE")).is_too_expensive


def test_the_list_runs_as_a_search_job_with_its_condition_order_and_instant():
    query = f"q={quote(AMOUNT)}&sort=$.amount:desc&at=2031-05-06T00:00:00Z".encode()
    action = next(each for each in ROUTES if isinstance(each, Action) and each.name == "run_search")
    call = action.build(Form(view(query).job))
    assert call.get_target("/api") == (
        "/api/search/async/order/1?sort=%24.amount%3Adesc&pointInTime=2031-05-06T00%3A00%3A00Z"
    )
    assert b'"value":1.10' in (call.body or b"")
    assert action.follow(Form(()), a_reply("5e0c")) == "/console/searches/5e0c"


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", "/console/part/models/order/1/entities/news"),
        (f"q={quote(STATE)}", "/console/part/models/order/1/entities/news?state=NEW"),
        ("after=x", None),
        ("at=2031-05-06T00:00:00Z", None),
        (f"q={quote(AMOUNT)}", None),
    ],
)
def test_only_what_is_counted_anyhow_is_announced(query: str, expected: str | None):
    assert view(query.encode()).news == expected


def test_further_entities_are_announced_from_the_second_count_on():
    def news(query: bytes, counts: ModelCounts) -> EntityNewsView:
        data = view_entity_news("/part", parse_query(query), counts).data
        assert isinstance(data, EntityNewsView)
        return data

    counts = ModelCounts(states=(StateCount("NEW", 7), StateCount("PAID", 5)))
    first = news(b"state=NEW", counts)
    assert (first.more, first.again) == (0, "/part?state=NEW&since=7")
    assert news(b"state=NEW&since=4", counts).more == 3
    assert news(b"since=4", counts).more == 8
    assert news(b"since=20", counts).more == 0
    assert news(b"since=4", ModelCounts(is_counting=True)).more == 0
    assert news(b"", ModelCounts(is_counting=True)).again == "/part?"
    with pytest.raises(InvalidField):
        news(b"since=x", counts)


@pytest.mark.parametrize(
    ("counted", "words"),
    [
        (a_reply({"total": 4120}), "4\u202f120"),
        (a_reply({"total": 10000, "totalIsLowerBound": True}), "10\u202f000+"),
        (a_problem(503, "SEARCH_SHARD_TIMEOUT"), "too many to count quickly"),
    ],
)
def test_a_count_says_how_exact_it_is(counted: object, words: str):
    assert view(b"count=1", counted=counted).total == words
