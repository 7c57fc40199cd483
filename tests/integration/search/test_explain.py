"""What a search tells about itself when asked."""

import pytest

from tests.builders import Json
from tests.integration.search.finding import EVERYTHING, a_parcel_model, all_of, asked, parcels, simple
from tests.service import Api, done, refused


@pytest.fixture
def parcel_api(api: Api) -> Api:
    a_parcel_model(api)
    parcels(api, {})
    return api


def explained(api: Api, condition: Json, kind: str = "plan") -> Json:
    response = asked(api, condition, explain=kind)
    assert response.headers["content-type"] == "application/json"
    return done(response)


def test_an_exact_search_leaves_nothing_to_be_judged(parcel_api: Api) -> None:
    explanation = explained(parcel_api, simple("$.name", "EQUALS", "secret's"))
    assert set(explanation) == {"sql", "arguments", "judged", "plan"}
    assert explanation["judged"] == []
    assert "LIMIT $" in explanation["sql"]
    assert any("Scan" in line for line in explanation["plan"])


def test_no_text_of_a_user_stands_in_the_statement(parcel_api: Api) -> None:
    condition = all_of(
        simple("$.name", "EQUALS", "secret's"),
        simple("$.buyer.city", "LIKE", "50%"),
        simple("$.weight", "LESS_THAN", 77),
    )
    explanation = explained(parcel_api, condition)
    for text in ("secret", "50", "buyer", "name", "77"):
        assert text not in explanation["sql"]
    assert {"secret's", "buyer", "name", "77"} <= {*explanation["arguments"]}


def test_what_is_judged_row_by_row_is_named(parcel_api: Api) -> None:
    condition = all_of(
        simple("$.name", "MATCHES_PATTERN", "a.*"),
        simple("$.scanned", "GREATER_THAN", "2031"),
        simple("$.note", "IS_NULL"),
    )
    assert explained(parcel_api, condition)["judged"] == [
        "$.name: MATCHES_PATTERN",
        "$.scanned: ZONED_DATE_TIME GREATER_THAN",
    ]


def test_analyze_runs_the_statement(parcel_api: Api) -> None:
    assert any("actual time" in line for line in explained(parcel_api, EVERYTHING, "analyze")["plan"])


def test_another_kind_is_refused_by_its_name(parcel_api: Api) -> None:
    problem = refused(asked(parcel_api, EVERYTHING, explain="please"), 400, "BAD_REQUEST")
    assert problem["properties"]["parameter"] == "explain"
