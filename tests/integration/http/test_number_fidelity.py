"""Numbers of any length survive every path through the service (docs/reference/entities.md#json-documents, decision
S1).
"""

from decimal import Decimal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from statewright.jsonval.codec import decode
from tests.builders import a_workflow, manual
from tests.service import Api, done

SPELLINGS = [
    "9007199254740993",
    "-9223372036854775809",
    "12345678901234567890123456789012345678",
    "1234567890123456789012345678901234567890",
    "0.1234567890123456789012345678901234567890",
    "123456789012345678901234567890.123456789012345678901234567890",
    "0.30000000000000004",
    "3.14159265358979323846264338327950288",
    "1.10",
    "100.000",
    "-0.5",
    "1e2",
    "1E-7",
    "2.5e+30",
    "1e6144",
    "1e-6144",
    "9" * 4000,
    "0." + "3" * 4000,
]


def a_number(text: str) -> Decimal:
    """The value of a JSON number, exactly."""
    return Decimal(text)


def number_in(response_text: str) -> Decimal:
    """The value of ``data.n``."""
    value = decode(response_text)
    assert isinstance(value, dict)
    assert isinstance(value["data"], dict)
    number = value["data"]["n"]
    assert isinstance(number, int | Decimal)
    return Decimal(number)


@pytest.fixture
def numbers(api: Api) -> Api:
    """A model whose field takes any number at all."""
    api.import_model("numbers/1", {"n": 1})
    done(api.post("/model/import/JSON/SAMPLE_DATA/numbers/1", '{"n": 1e-6144}'))
    done(api.post("/model/import/JSON/SAMPLE_DATA/numbers/1", '{"n": 1e6144}'))
    api.import_workflows(a_workflow(New=[manual("GO", to="Gone")], Gone=[]), model="numbers/1")
    api.lock("numbers/1")
    return api


@pytest.mark.parametrize("text", SPELLINGS, ids=lambda text: text[:24])
def test_a_number_survives_create_and_read(numbers: Api, text: str) -> None:
    [result] = done(numbers.post("/entity/JSON/numbers/1", f'{{"n": {text}}}'))
    assert number_in(numbers.get(f"/entity/{result['entityIds'][0]}").text) == a_number(text)


def test_a_number_survives_update_transition_listing_and_the_past(numbers: Api) -> None:
    text = "12345678901234567890.98765432109876543210"
    entity = numbers.create({"n": 1}, model="numbers/1").id
    loopback = numbers.update(entity, f'{{"n": {text}}}')
    fired = numbers.update(entity, f'{{"n": -{text}}}', fire="GO")
    assert number_in(numbers.get(f"/entity/{entity}").text) == a_number(f"-{text}")
    assert number_in(numbers.get(f"/entity/{entity}?transactionId={loopback.transaction}").text) == a_number(text)
    assert f'"n":-{text}' in numbers.get("/entity/numbers/1").text
    at = numbers.read(entity, f"?transactionId={fired.transaction}")["meta"]["lastUpdateTime"]
    assert f'"n":-{text}' in numbers.get(f"/entity/numbers/1?pointInTime={at}").text


def test_digits_are_preserved_where_only_the_notation_could_change(numbers: Api) -> None:
    entity = numbers.create('{"n": 1.10}', model="numbers/1").id
    assert '"n":1.10' in numbers.get(f"/entity/{entity}").text


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.decimals(allow_nan=False, allow_infinity=False, places=None) | st.integers())
def test_every_number_comes_back_equal(numbers: Api, number: Decimal | int) -> None:
    text = str(number).replace("E+", "e")
    exponent = Decimal(number).adjusted() if number else 0
    if abs(exponent) > 6000:
        return
    [result] = done(numbers.post("/entity/JSON/numbers/1", f'{{"n": {text}}}'))
    assert number_in(numbers.get(f"/entity/{result['entityIds'][0]}").text) == Decimal(number)
