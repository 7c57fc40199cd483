"""How large and how deep things may be (docs/reference/entities.md#limits)."""

import pytest

from tests.service import Api, refused

TOO_LARGE = b'{"a":1}' + b" " * (10 * 1024 * 1024)
MERGE_PATCH = "application/merge-patch+json"


@pytest.fixture
def entity(api: Api) -> str:
    api.a_model(sample={"a": 1})
    return api.create({"a": 1}).id


def test_a_body_over_ten_mebibytes_is_too_large(api: Api, entity: str) -> None:
    answers = [
        api.post("/entity/JSON/prize/1", TOO_LARGE),
        api.post("/entity/JSON", TOO_LARGE),
        api.put("/entity/JSON", TOO_LARGE),
        api.put(f"/entity/JSON/{entity}", TOO_LARGE),
        api.request("PATCH", f"/entity/JSON/{entity}", TOO_LARGE, If_Match="*", Content_Type=MERGE_PATCH),
    ]
    for answer in answers:
        refused(answer, 413, "BAD_REQUEST")
    assert api.read(entity)["data"] == {"a": 1}


def test_a_message_over_ten_mebibytes_is_too_large(api: Api) -> None:
    refused(api.post("/message/new/x", TOO_LARGE, Content_Type="application/json"), 413, "BAD_REQUEST")


@pytest.mark.parametrize("opening", ['{"a":', "["])
def test_a_document_deeper_than_256_levels_is_a_bad_request(api: Api, entity: str, opening: str) -> None:
    closing = "}" if opening.startswith("{") else "]"
    deep = '{"a":' + opening * 256 + "1" + closing * 256 + "}"
    refused(api.post("/entity/JSON/prize/1", deep), 400, "BAD_REQUEST")
    refused(api.put(f"/entity/JSON/{entity}", deep), 400, "BAD_REQUEST")


@pytest.mark.parametrize("window", ["0", "1001", "-1", "many", "2147483648"])
def test_a_transaction_takes_one_to_a_thousand_items(api: Api, entity: str, window: str) -> None:
    for path in ("/entity/JSON/prize/1", "/entity/JSON"):
        problem = refused(api.post(f"{path}?transactionWindow={window}", "[]"), 400, "BAD_REQUEST")
        assert "transactionWindow" in problem["detail"]


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("pageSize=10000", 200),
        ("pageSize=10001", 400),
        ("pageSize=-1", 400),
        ("pageNumber=214748", 200),
        ("pageNumber=214749", 400),
        ("pageNumber=-1", 400),
        ("pageSize=0", 200),
        ("afterId=nobody", 400),
    ],
)
def test_pages_have_limits(api: Api, entity: str, query: str, status: int) -> None:
    assert api.get(f"/entity/prize/1?{query}").status_code == status


def test_a_list_goes_on_after_an_id_also_in_the_past(api: Api, entity: str) -> None:
    ids = sorted([entity, *(api.create({"a": n}).id for n in range(4))])
    now = api.read(ids[0])["meta"]["creationDate"]
    assert now
    for query in ("", "&pointInTime=2999-01-01"):
        found = [e["meta"]["id"] for e in api.get(f"/entity/prize/1?pageSize=2&afterId={ids[1]}{query}").json()]
        assert found == ids[2:4]
        rest = [e["meta"]["id"] for e in api.get(f"/entity/prize/1?afterId={ids[3].upper()}{query}").json()]
        assert rest == ids[4:]


def test_a_refusal_describes_the_first_hundred_faults_and_counts_the_others(api: Api) -> None:
    api.a_model(sample={"a": 1})
    for faults, others in ((500, "and 400 more"), (10_000, "and more")):  # of very many the count is not taken
        document = {f"k{n}": 1 for n in range(faults)}
        problem = refused(api.post("/entity/JSON/prize/1", document), 400, "BAD_REQUEST")
        assert f"k99: unexpected field not present in model; {others}" in problem["detail"]
        assert "k100:" not in problem["detail"]


def test_a_refusal_quotes_no_more_of_a_request_than_somebody_would_read(api: Api) -> None:
    api.a_model(sample={"a": 1})
    answer = api.post("/entity/JSON/prize/1", {"n" * 1_000_000: 1})
    assert refused(answer, 400, "BAD_REQUEST")["detail"].startswith("BAD_REQUEST: validation failed: nnn")
    assert len(answer.content) < 20_000
