"""Others are served while somebody submits expressions that would take for ever, in every language that the service
evaluates: each is refused, or ended by its limit.

Some of the shapes run by default; ``STATEWRIGHT_TEST_HOSTILE_SHAPES=all`` runs all, which takes minutes, on a machine
with nothing else to do. Then what others wait for reads and creates is held to the same limit as for health: these
also wait for the database, and creates for the disk. What harmless expressions made others wait is logged beside.
``STATEWRIGHT_TEST_LIMITS=1`` makes the values that they work on as large as a document may be.
"""

import json
import logging
import os
import random
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Final

import pytest

from tests.builders import SAMPLE as DOCUMENT
from tests.e2e.health import Health
from tests.e2e.hostile_languages import LANGUAGES, Language, Size
from tests.e2e.program import Program, started
from tests.service import a_token, signing_key_pem

TAKES_ALL: Final = os.environ.get("STATEWRIGHT_TEST_HOSTILE_SHAPES") == "all"

MAX_WAIT_S: Final = 0.1
"""For the answers to others, but for one in a hundred."""
MAX_SHAPE_S: Final = 5.0 if TAKES_ALL else 10.0
"""Alone on a machine, or beside other tests, which take a part of the processors from what is computed."""
AT_ONCE: Final = 2
"""Expressions that are submitted at the same time."""
DEFAULT_SHAPES: Final = 10
"""Of each language, beside some of those that are known."""
SIZE: Final = Size(1_000_000, 100_000) if os.environ.get("STATEWRIGHT_TEST_LIMITS") else Size(20_000, 500)
"""Some expressions multiply the two: what they make is to be no larger than a document may be."""


def choose_shapes(language: Language) -> list[str]:
    others = [*language.generated, *language.others]
    return [*language.known, *(others if TAKES_ALL else random.Random(1).sample(others, DEFAULT_SHAPES))]


@pytest.fixture
def program(tmp_path: Path, database: str) -> Iterator[Program]:
    settings = {"IAM_MODE": "jwt", "JWT_SIGNING_KEY": signing_key_pem(), "PLAYBOOKS_REQUESTS": "true"}
    with started(tmp_path, POSTGRES_URL=database, **settings) as program:
        yield program.ready()


def test_there_are_as_many_shapes_as_promised() -> None:
    known = [shape for language in LANGUAGES.values() for shape in language.known]
    generated = {shape for language in LANGUAGES.values() for shape in language.generated}
    assert len(known) >= 23
    assert len(generated) >= 200


@pytest.mark.parametrize("name", LANGUAGES)
def test_others_are_served_while_hostile_shapes_are_evaluated(name: str, program: Program, database: str) -> None:
    language, shapes = LANGUAGES[name], choose_shapes(LANGUAGES[name])
    other = a_token("other")
    program.api(other).a_model()
    entity = program.api(other).create().id
    with ExitStack() as stack:
        asked = {
            "health": Health(program),
            "get": Health(program, f"/api/entity/{entity}", token=other, database=database),
            "create": Health(
                program, "/api/entity/JSON/prize/1", token=other, database=database, body=json.dumps(DOCUMENT)
            ),
        }
        for health in asked.values():
            stack.callback(health.stop)
        _, harmless = submit_all(program, language, [(language.harmless, shape) for shape in shapes], asked)
        (longest_s, longest), waits = submit_all(program, language, [(shape, shape) for shape in shapes], asked)
    logging.info(
        "%s: %d shapes, p99 %s, with harmless ones %s, longest %.2f s: %.100s, load %.1f",
        *(name, len(shapes), waits, harmless, longest_s, longest, os.getloadavg()[0]),
    )
    assert waits.net["health"] < MAX_WAIT_S
    if TAKES_ALL:
        assert waits.net["get"] < MAX_WAIT_S
        assert waits.net["create"] < MAX_WAIT_S
    assert longest_s < MAX_SHAPE_S, longest[:200]
    assert program.is_running


@dataclass(frozen=True)
class Waits:
    """How long others waited, in seconds by what they asked for; ``wall``: with waits for a processor."""

    net: dict[str, float]
    wall: dict[str, float]

    def __str__(self) -> str:
        return ", ".join(
            f"{kind} {self.net[kind] * 1e3:.0f} ms (wall {self.wall[kind] * 1e3:.0f})" for kind in self.net
        )


def submit_all(
    program: Program, language: Language, shapes: Sequence[tuple[str, str]], asked: Mapping[str, Health]
) -> tuple[tuple[float, str], Waits]:
    """The shape that took longest, with its seconds, and how long others waited meanwhile. With each comes the shape
    whose values are sent.
    """
    token = a_token("hostile")
    v1, api = program.api(token, context_path=""), program.api(token)
    begun = monotonic()

    def submit(shape: str, names: str) -> tuple[float, str]:
        values = SIZE.pick(names, language.values)
        since = monotonic()
        language.submit(v1, api, shape, values)
        return monotonic() - since, shape

    with ThreadPoolExecutor(AT_ONCE) as pool:
        taken = list(pool.map(submit, *zip(*shapes, strict=True)))
    net = {kind: health.p99_since(begun) for kind, health in asked.items()}
    return max(taken), Waits(net, {kind: health.wall_p99_since(begun) for kind, health in asked.items()})
