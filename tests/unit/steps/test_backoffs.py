"""Backoffs of jobs in definitions."""

import pytest

from statewright.jsonval.values import JsonValue
from statewright.processes.changes import Backoff
from statewright.steps.definition import find_policy
from statewright.steps.upload import lint_definition
from tests.unit.steps.builders import a_process, end, service


def backoff(declared: JsonValue) -> Backoff | None:
    process = a_process(service("rate", "end", retryCount=4), end(), metadata={"retryBackoff": declared})
    return find_policy(process.definition, process.steps["rate"]).backoff


def warnings(declared: JsonValue) -> list[str]:
    process = a_process(service("rate", "end"), end(), metadata={"retryBackoff": declared})
    return [text for text in lint_definition(process.definition) if "retryBackoff" in text]


def test_a_type_of_jobs_has_a_backoff_of_its_own_or_that_of_all():
    declared: JsonValue = {"rate": {"delay": "PT5S", "factor": 3, "maxDelay": "PT10M", "jitter": 0}}
    assert backoff(declared) == Backoff(retries=4, delay_s=5, factor=3, max_delay_s=600, jitter=0)
    assert backoff({"*": {"delay": "PT1S"}}) == Backoff(retries=4, delay_s=1)
    assert backoff({"other": {}}) is None


def test_a_rest_grows_with_each_failure_up_to_a_limit():
    rests = Backoff(retries=4, delay_s=5, factor=3, max_delay_s=40, jitter=0)
    assert [rests.compute_pause_us(left, 0.5) // 1_000_000 for left in (4, 3, 2, 1)] == [5, 15, 40, 40]


def test_the_jitter_goes_both_ways():
    rests = Backoff(retries=1, delay_s=10, jitter=0.5)
    assert [rests.compute_pause_us(1, chance) // 1_000_000 for chance in (0, 0.5, 1)] == [5, 10, 15]


@pytest.mark.parametrize(
    ("declared", "told"),
    [
        ([], "metadata.retryBackoff has no effect: it must be an object"),
        ({"rate": 5}, 'metadata.retryBackoff "rate" has no effect: it must be an object'),
        ({"rate": {"dalay": "PT1S"}}, 'metadata.retryBackoff "rate" has no effect: "dalay" is unknown'),
        (
            {"rate": {"delay": "P1M"}},
            'metadata.retryBackoff "rate" has no effect: delay must be an ISO 8601 duration up to P30D, without months',
        ),
        ({"rate": {"factor": 11}}, 'metadata.retryBackoff "rate" has no effect: factor must be a number from 1 to 10'),
        ({"rte": {}}, 'metadata.retryBackoff "rte" has no effect: no step has such jobs'),
    ],
)
def test_what_has_no_effect_is_a_warning(declared, told):
    assert warnings(declared) == [told]
    assert backoff(declared) is None


@pytest.mark.parametrize(
    ("declared", "found", "told"),
    [
        ({"rate": 5}, 5, []),
        ({"*": 1}, 1, []),
        ({"rate": 5, "*": 1}, 5, []),
        (None, None, []),
        ([], None, ["metadata.deliveries has no effect: it must be an object"]),
        ({"rte": 5}, None, ['metadata.deliveries "rte" has no effect: no step has such jobs']),
        *(
            (
                {"rate": value},
                None,
                ['metadata.deliveries "rate" has no effect: it must be a whole number from 1 to 1000'],
            )
            for value in (0, 1001, 1.5, True, "5")
        ),
    ],
)
def test_deliveries_are_limited_by_type(declared, found, told):
    process = a_process(service("rate", "end"), end(), metadata={"deliveries": declared})
    assert find_policy(process.definition, process.steps["rate"]).deliveries == found
    assert [text for text in lint_definition(process.definition) if "deliveries" in text] == told
