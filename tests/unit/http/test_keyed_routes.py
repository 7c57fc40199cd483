"""Every request that changes something can be repeated with its key: its endpoint says how it is recorded."""

import inspect

import pytest

from statewright.api.http.dialects import FLOW_ROUTES, OPS_ROUTES, PLAYBOOK_API, ROUTES, STEP_ROUTES
from statewright.api.http.router import Operation

WRITES = [
    route
    for route in (*ROUTES, *STEP_ROUTES, *FLOW_ROUTES, *PLAYBOOK_API.routes, *OPS_ROUTES)
    if route.method not in ("GET", "HEAD")
]
AFTERWARDS = {"/v1/instances/purge"}
"""Of many commits: recorded after them, as events of flows are that are not for one instance."""


@pytest.mark.parametrize("route", WRITES, ids=lambda route: f"{route.method} {route.path}")
def test_a_write_says_what_is_recorded_with_its_commit(route: Operation) -> None:
    is_recorded = "answer_with" in inspect.getsource(route.endpoint)
    assert is_recorded == (route.recording in ("commit", "only commit", "either") and route.path not in AFTERWARDS)
