"""The requests of the reference pages are answered as the pages say."""

import asyncio
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from time import monotonic, sleep
from typing import Any

import pytest

from statewright.conditions import parse
from statewright.ids import TenantId
from statewright.sdk import Node
from tests.builders import Json
from tests.integration.docs.pages import Exchange, read
from tests.service import PATIENCE_S, Api, RunningService, a_token, eventually

PAGES = ["models.md", "entities.md", "workflows.md", "conditions.md", "search.md"]

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[14][0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")
"""Ids of entities, transactions and jobs; those of models (version 5) follow from their names, so pages name them."""

INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
MEASURED = {"microsTime", "scheduledTime", "calculationTimeMillis"}
CONDITIONS = {"simple", "lifecycle", "group", "array", "function"}


class Names:
    """Which id of this run stands for which id of the page; the same goes for instants."""

    def __init__(self) -> None:
        self._actual: dict[str, str] = {}

    def copy(self) -> "Names":
        """To try out an answer with: one that is not the right one must not bind anything."""
        other = Names()
        other.adopt(self)
        return other

    def adopt(self, other: "Names") -> None:
        self._actual = dict(other._actual)

    def translate(self, text: str) -> str:
        for pattern in (UUID, INSTANT):
            text = pattern.sub(lambda found: self._actual.get(found[0], found[0]), text)
        return text

    def bind(self, expected: str, actual: str) -> bool:
        """Whether two texts are the same up to ids and instants; ids must then be the same ones everywhere."""
        if INSTANT.sub("T", UUID.sub("U", expected)) != INSTANT.sub("T", UUID.sub("U", actual)):
            return False
        pairs = zip(UUID.findall(expected), UUID.findall(actual), strict=True)
        instants = zip(_instants(expected), _instants(actual), strict=True)
        for name, found in instants:
            self._actual.setdefault(name, found)
        return all(self._actual.setdefault(name, found) == found for name, found in pairs)


def _instants(text: str) -> list[str]:
    return [found[0] for found in INSTANT.finditer(text)]


def matches(expected: Json, actual: Json, names: Names, *, measured: bool = False) -> bool:
    """Whether an answer is the expected one."""
    match expected:
        case dict():
            return (
                isinstance(actual, dict)
                and actual.keys() == expected.keys()
                and all(matches(expected[name], actual[name], names, measured=name in MEASURED) for name in expected)
            )
        case list():
            return (
                isinstance(actual, list)
                and len(actual) == len(expected)
                and all(matches(a, b, names) for a, b in zip(expected, actual, strict=True))
            )
        case str():
            return isinstance(actual, str) and names.bind(expected, actual)
        case _:
            return measured or (type(expected) is type(actual) and expected == actual)


def answers(response: Any, tenant: str) -> list[Json]:
    """The JSON of an answer; its lines when it is a stream of lines. On the pages the tenant is called acme."""
    text = response.text.replace(tenant, "acme")
    if response.headers.get("content-type") == "application/x-ndjson":
        return [json.loads(line, parse_float=Decimal) for line in text.splitlines()]
    return [json.loads(text, parse_float=Decimal)]


def is_answered(api: Api, tenant: str, exchange: Exchange, names: Names) -> str | None:
    """None when the service answers as the page says, else what it answered."""
    headers = {name.replace("-", "_"): names.translate(value) for name, value in exchange.headers.items()}
    body = names.translate(exchange.body)
    response = api.request(exchange.method, names.translate(exchange.path), body, **headers)
    bound = names.copy()
    is_same = response.status_code == exchange.status and matches(exchange.answers, answers(response, tenant), bound)
    if is_same:
        names.adopt(bound)
    return None if is_same else f"{response.status_code}: {response.text}"


@contextmanager
def nodes(python: list[str], service: RunningService, tenant: str) -> Iterator[None]:
    """The calculation node that a page defines, connected, if it defines one."""
    names: dict[str, Any] = {"__name__": "reference_page"}
    exec(compile("\n".join(python), "reference page", "exec"), names)
    node = names.get("node")
    if not isinstance(node, Node):
        yield
        return
    serving = node.serve(service.grpc, token=a_token(tenant), api=service.url)
    running = asyncio.run_coroutine_threadsafe(serving, service.loop)
    eventually(lambda: service.parts.members.list_members(TenantId(tenant)))
    try:
        yield
    finally:
        service.loop.call_soon_threadsafe(node.stop)
        running.result(PATIENCE_S)


@pytest.mark.parametrize("name", PAGES)
def test_the_requests_of_a_page_are_answered_as_it_says(name: str, service: RunningService, tenant: str) -> None:
    page, api, names = read(name), service.api(tenant), Names()
    with nodes(page.python, service, tenant):
        for exchange in page.exchanges:
            until = monotonic() + (5 if exchange.method == "GET" else 0)
            while (found := is_answered(api, tenant, exchange, names)) and monotonic() < until:
                sleep(0.05)
            assert found is None, f"{exchange.method} {exchange.path} -> {found}"


@pytest.mark.parametrize("name", PAGES)
def test_every_condition_of_a_page_is_one(name: str) -> None:
    for block in read(name).others:
        if isinstance(block, dict) and block.get("type") in CONDITIONS:
            parse(block)
