"""What a client sees when its computation was killed, or refused."""

from datetime import timedelta

import pytest
from grpc import StatusCode

from statewright.api.grpc.calls import to_client_error, to_status
from statewright.api.http.errors import build_problem
from statewright.api.http.processes.bodies import BARE_ERRORS
from statewright.failures import ComputationKilled, ComputationsBusy, ComputationTooLarge, ComputationTooLong, Failure
from statewright.jsonval.codec import decode

TOO_LONG = ComputationTooLong(timedelta(seconds=3))
KILLED = [
    pytest.param(TOO_LONG, "COMPUTATION_TOO_LONG", id="time"),
    pytest.param(ComputationTooLarge(512 * 2**20), "COMPUTATION_TOO_LARGE", id="memory"),
    pytest.param(ComputationKilled(), "COMPUTATION_KILLED", id="else"),
]


@pytest.mark.parametrize(("failure", "code"), KILLED)
def test_a_killed_computation_is_the_request_s_fault_at_every_interface(failure: Failure, code: str):
    problem = decode(bytes(build_problem(failure, "/api/x").body))
    assert isinstance(problem, dict)
    assert problem["status"] == 400
    assert problem["properties"]["errorCode"] == code  # type: ignore[index, call-overload]
    assert "retryable" not in problem["properties"]  # type: ignore[operator]
    assert to_client_error(failure, "m", "t").message.startswith(f"{code}: ")
    assert to_status(failure, "m") == (StatusCode.INVALID_ARGUMENT, failure.detail)
    error = decode(bytes(BARE_ERRORS.failure(failure, "/v1/x").body))
    assert error == {"error": "bad-request", "reason": failure.detail}


def test_a_limit_is_named():
    assert "3 s" in TOO_LONG.message
    assert TOO_LONG.properties == {"limitMs": 3000}
    assert "512 MiB" in ComputationTooLarge(512 * 2**20).message


def test_a_refused_computation_says_when_to_come_again():
    busy = ComputationsBusy("32 computations of the tenant wait already")
    problem = build_problem(busy, "/api/x")
    assert problem.status == 503
    assert (b"retry-after", b"1") in problem.headers
    assert busy.detail.startswith("COMPUTATIONS_BUSY: ")
    assert to_status(busy, "m") == (StatusCode.UNAVAILABLE, busy.detail)
    assert any(name.lower() == b"retry-after" for name, _ in BARE_ERRORS.failure(busy, "/v1/x").headers)
