"""Bodies at the limits of their size that are meant to cost more than they weigh: how long they hold up others."""

import asyncio
import json
import time
from collections.abc import Callable
from functools import partial

import pytest

from statewright.failures import BadRequest
from statewright.jsonval.codec import decode
from statewright.jsonval.patches import PatchFailed, apply_json_patch
from statewright.loop.background import run_by_size
from statewright.schema import compile_validator, find_sample_limit, infer, normalise
from statewright.schema.export import MalformedSchema, from_json_schema
from statewright.services.writing import read_document
from statewright.steps import accept_text

MAX_BODY = 10 * 1024 * 1024
MAX_SECONDS = 15.0
"""Of processor time that any body takes; most take far less. It guards against what grows faster than its input."""

MAX_HOLD_S = 5.0
"""Processor time for which the event loop may stand still meanwhile: single calls of the decoder, the sort and the
garbage collector cannot be interrupted. Computed by the loop itself, some take longer.
"""


def _apply(document: bytes, patch: bytes) -> object:
    return apply_json_patch(decode(document), decode(patch))


def _infer(body: bytes) -> object:
    return infer(read_document(body, "JSON").value, find_sample_limit())


def _validate(body: bytes) -> object:
    return compile_validator(normalise(infer({"v": [1]})))(decode(body))


def _read_schema(body: bytes) -> object:
    return from_json_schema(decode(body))


def _fill(head: str, item: Callable[[int], str], tail: str, between: str = ",", most: int = MAX_BODY) -> bytes:
    """As many items as a body has room for."""
    parts, size = list[str](), len(head) + len(tail)
    while size < most - 100:
        parts.append(item(len(parts)))
        size += len(parts[-1]) + len(between)
    return (head + between.join(parts) + tail).encode()


def _steps(n: int) -> str:
    return json.dumps({"id": f"s{n}", "name": "s", "type": "WAIT", "nextStep": f"s{n + 1}"})


_LONG = "n" * (MAX_BODY // 2)

CORPUS: dict[str, Callable[[], tuple[int, Callable[[], object]]]] = {}


def _case(name: str, compute: Callable[[bytes], object], build: Callable[[], bytes]) -> None:
    def prepare() -> tuple[int, Callable[[], object]]:
        body = build()
        assert len(body) <= MAX_BODY
        return len(body), partial(compute, body)

    CORPUS[name] = prepare


_case("numbers", _infer, lambda: _fill('{"v":[', lambda _: "7", "]}"))
_case("numbers-validated", _validate, lambda: _fill('{"v":[', lambda _: "7", "]}"))
_case("objects-of-different-names", _infer, lambda: _fill('{"v":[', lambda n: f'{{"k{n}":1}}', "]}"))
_case("names-below-a-long-one", _infer, lambda: _fill(f'{{"{_LONG}":{{', lambda n: f'"k{n}":1', "}}"))
_case("repeated-below-a-long-name", _infer, lambda: _fill(f'{{"{_LONG}":{{"a":1,', lambda n: f'"k{n}":1', ',"a":2}}'))
_case(
    "attributes", partial(read_document, media="XML"), lambda: _fill("<a ", lambda n: f'a{n}="{n}"', "/>", between=" ")
)
_case("elements", partial(read_document, media="XML"), lambda: _fill("<a>", lambda _: "<b/>", "</a>", between=""))
_case("alternatives", _read_schema, lambda: _fill('{"anyOf":[', lambda n: f'{{"properties":{{"k{n}":{{}}}}}}', "]}"))
_case(
    "prepended", partial(_apply, b'{"v":[]}'), lambda: _fill("[", lambda _: '{"op":"add","path":"/v/0","value":1}', "]")
)
_case(
    "doubled",
    partial(_apply, b'{"v":[1]}'),
    lambda: _fill("[", lambda _: '{"op":"copy","from":"/v","path":"/v/-"}', "]", most=2000),
)
_case("steps", accept_text, lambda: _fill('{"id":"d","name":"d","steps":[', _steps, "]}"))
_case(
    "branches",
    accept_text,
    lambda: _fill(
        '{"id":"d","name":"d","steps":[{"id":"a","name":"a","type":"DECISION","conditionalNextSteps":{',
        lambda n: f'"x == {n}":"b"',
        '}},{"id":"b","name":"b","type":"END"}]}',
        most=1024 * 1024,
    ),
)
_case(
    "openings",
    accept_text,
    lambda: _fill(
        '{"id":"d","name":"d","steps":[{"id":"a","name":"a","type":"DECISION","conditionalNextSteps":{"${x}',
        lambda _: "${",
        '":"b"}},{"id":"b","name":"b","type":"END"}]}',
        between="",
    ),
)


@pytest.mark.parametrize("name", CORPUS)
async def test_no_body_costs_more_than_it_weighs_or_holds_up_the_event_loop(name: str) -> None:
    size, compute = CORPUS[name]()
    longest = 0.0

    async def watch() -> None:
        nonlocal longest
        last = time.process_time()
        while True:
            await asyncio.sleep(0.001)
            now = time.process_time()
            longest, last = max(longest, now - last), now

    watching = asyncio.create_task(watch())
    await asyncio.sleep(0)
    taken = time.process_time()
    try:
        await run_by_size(size, compute)
    except (BadRequest, MalformedSchema, PatchFailed):
        pass
    finally:
        taken = time.process_time() - taken
        watching.cancel()
    assert taken < MAX_SECONDS
    assert longest < MAX_HOLD_S
