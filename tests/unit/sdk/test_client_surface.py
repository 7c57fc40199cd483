"""Both clients offer the same, and say so to tools."""

import inspect
import re
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

import statewright
from statewright.sdk import client
from statewright.sdk.client import AsyncClient, Client
from statewright.sdk.operations.entities import Entity
from statewright.sdk.operations.models import Model

PAIRS = [
    (Client, AsyncClient),
    (client.Models, client.AsyncModels),
    (client.Workflows, client.AsyncWorkflows),
    (client.Searches, client.AsyncSearches),
    (client.Messages, client.AsyncMessages),
    (client.Steps, client.AsyncSteps),
    (client.Tasks, client.AsyncTasks),
    (client.Flows, client.AsyncFlows),
    (client.Playbooks, client.AsyncPlaybooks),
    (client.Ops, client.AsyncOps),
    (client.Incidents, client.AsyncIncidents),
    (client.Suspensions, client.AsyncSuspensions),
    (client.Bulk, client.AsyncBulk),
    (client.Events, client.AsyncEvents),
    (client.Subscriptions, client.AsyncSubscriptions),
]


def list_operations(kind: type) -> dict[str, Callable[..., Any]]:
    return {name: value for name, value in vars(kind).items() if hasattr(value, "__wrapped__")}


@pytest.mark.parametrize(("blocking", "awaited"), PAIRS, ids=[pair[0].__name__ for pair in PAIRS])
def test_the_operations_of_both_are_made_from_the_same_values(blocking: type, awaited: type) -> None:
    of_one, of_other = list_operations(blocking), list_operations(awaited)
    assert {name: made.__wrapped__ for name, made in of_one.items()} == {  # type: ignore[attr-defined]
        name: made.__wrapped__
        for name, made in of_other.items()  # type: ignore[attr-defined]
    }
    for name, made in of_one.items():
        assert inspect.isgeneratorfunction(made) == inspect.isasyncgenfunction(of_other[name]), name


def test_both_have_the_same_parts() -> None:
    parts = {name for name, value in vars(Client).items() if isinstance(value, property)}
    assert parts == {name for name, value in vars(AsyncClient).items() if isinstance(value, property)}
    assert {pair[0].__name__.lower() for pair in PAIRS[1:]} == parts


@pytest.mark.parametrize("kind", [kind for pair in PAIRS for kind in pair])
def test_every_operation_is_documented_and_has_its_signature(kind: type) -> None:
    for name, made in list_operations(kind).items():
        assert made.__doc__, name
        assert next(iter(inspect.signature(made).parameters)) == "self", name


def test_the_signature_of_a_method_is_that_of_the_operation() -> None:
    with Client("http://127.0.0.1:1") as one:
        assert list(inspect.signature(one.count).parameters) == ["model", "version", "at"]


@pytest.mark.parametrize("kind", [kind for pair in PAIRS for kind in pair])
def test_a_signature_says_what_the_method_gives_and_not_how(kind: type) -> None:
    for name, made in list_operations(kind).items():
        given = str(inspect.signature(made).return_annotation)
        assert not re.search(r"\b(Operation|Generator|Pause|Page)\b", given), (name, given)


def test_what_both_clients_give_is_in_their_signatures() -> None:
    def given(method: Callable[..., Any]) -> object:
        return inspect.signature(method).return_annotation

    assert given(Client.get) is given(AsyncClient.get) is Entity
    assert given(Client.iterate) == Iterator[Entity]
    assert given(AsyncClient.iterate) == AsyncIterator[Entity]
    assert given(client.Models.list) == list[Model]
    assert given(client.Models.lock) is None


@pytest.mark.parametrize("name", statewright.__all__)
def test_the_names_of_the_package_are_those_of_the_sdk(name: str) -> None:
    assert getattr(statewright, name) is getattr(statewright.sdk, name)


def test_other_names_are_none() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Clint'"):
        _ = statewright.Clint  # type: ignore[attr-defined]


def test_a_client_of_ones_own_keeps_what_it_overrides() -> None:
    class Careful(Client):
        def delete(self, entity_id: str) -> None:  # type: ignore[override]
            raise PermissionError(entity_id)

    with Careful("http://127.0.0.1:1") as one, pytest.raises(PermissionError):
        one.delete("x")
    assert Careful.get is Client.get
