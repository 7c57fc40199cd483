"""Definitions that are long to compile or to draw, and who does it (docs/adr/0026-computations-have-processes.md)."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from tests.builders import Json
from tests.database import Template
from tests.integration.flows.conftest import an_error, done
from tests.integration.steps.conftest import definition, end, service_task, step
from tests.service import Api, hosted


def a_flow(length: int) -> Json:
    return {"id": "long", "source": "".join(f"S{n} → S{n + 1}\n" for n in range(length))}


def a_playbook(length: int) -> bytes:
    steps = "".join(
        f"- step: s{n}\n  tool: {{kind: wait, seconds: 1}}\n  next: {{arcs: [{{step: s{n + 1}}}]}}\n"
        for n in range(length)
    )
    return f"metadata: {{name: long}}\nworkflow:\n{steps}- step: s{length}\n".encode()


BRANCHES = 200
"""Of a decision; each is compared with every other, which is far more work than its text allows for."""


def a_definition(length: int) -> Json:
    return definition("long", *map(a_step, range(length)), end(f"s{length}"))


def a_step(n: int) -> Json:
    if n % 100:
        return service_task(f"s{n}", f"s{n + 1}")
    branches = {f"x == {value}": f"s{n + 1}" for value in range(BRANCHES)}
    return step(f"s{n}", "DECISION", conditionalNextSteps=branches)


KINDS = (
    ("/v1/flows/definitions", a_flow, 2_000),
    ("/v1/playbooks", a_playbook, 900),
    ("/v1/definitions", a_definition, 2_000),
)


@pytest.mark.parametrize(("path", "build", "length"), KINDS)
def test_long_definitions_are_checked_and_drawn_by_processes_that_can_be_killed(
    database_template: Template, path: str, build: Callable[[int], Json], length: int
) -> None:
    for timeout_ms, is_killed in ((30_000, False), (1, True)):
        settings = {"computation_timeout": timedelta(milliseconds=timeout_ms)}
        with hosted(database_template.clone(), **settings) as service:
            api = Api(service.root, service.api("long").token)
            outcomes = service.parts.runtime.core.computations.metrics.outcomes
            done(api.post(path, build(2)), 201)
            assert not outcomes, "what is short is compiled within a turn"
            answer = api.post(path, build(length))
            if is_killed:
                assert "takes longer than 0.001 s" in an_error(answer, 400, "bad-request")["reason"]
                assert outcomes == {"timeout": 1}
            else:
                assert done(answer, 201)["version"] == 2
                drawn = api.get(f"{path}/long/diagram")
                assert (drawn.status_code, drawn.text.count("\n") > length) == (200, True)
                assert outcomes == {"done": 2}
