"""How a node calls the functions of its users."""

import contextvars
import threading
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from decimal import Decimal
from typing import Any

import pytest
from msgspec import UNSET, Struct, UnsetType

from statewright.sdk.functions import Context, Function, UnfitDocument, UnfitSignature

CONTEXT = Context(name="f", request_id="r", entity_id="e", meta={"state": "NEW"})


class Prize(Struct):
    year: int
    motivation: str | None = None


@pytest.fixture
def threads() -> Iterator[Executor]:
    with ThreadPoolExecutor(2) as pool:
        yield pool


async def called(handler: Any, threads: Executor, document: bytes | None = b"{}") -> object:
    return await Function("processor", "f", handler).call(document, CONTEXT, threads)


async def test_a_function_gets_the_document_as_plain_values_with_exact_numbers(threads):
    document = await called(lambda document: document, threads, b'{"total": 0.1000000000000000000000000001, "n": 1}')
    assert document == {"total": Decimal("0.1000000000000000000000000001"), "n": 1}


async def test_a_second_parameter_gets_the_context(threads):
    assert await called(lambda document, context: context.state, threads) == "NEW"


async def test_a_parameter_annotated_as_the_context_gets_it_without_a_document(threads):
    def handler(surroundings: Context) -> str:
        return surroundings.entity_id

    assert await called(handler, threads, None) == "e"


async def test_a_function_may_take_nothing(threads):
    assert await called(lambda: "done", threads) == "done"


async def test_an_async_function_runs_on_the_loop(threads):
    async def handler(document: dict[str, object]) -> str:
        return threading.current_thread().name

    assert await called(handler, threads) == threading.current_thread().name


async def test_a_plain_function_runs_in_a_thread_of_the_node(threads):
    assert await called(lambda: threading.current_thread().name, threads) != threading.current_thread().name


async def test_context_variables_reach_plain_functions(threads):
    tenant = contextvars.ContextVar("tenant", default="none")
    tenant.set("acme")
    assert await called(lambda: tenant.get(), threads) == "acme"


async def test_a_callable_object_serves_as_a_function(threads):
    class Pricing:
        def __call__(self, prize: Prize) -> int:
            return prize.year

    assert await called(Pricing(), threads, b'{"year": 2024}') == 2024


async def test_an_async_callable_object_serves_too(threads):
    class Pricing:
        async def __call__(self, prize: Prize) -> int:
            return prize.year

    assert await called(Pricing(), threads, b'{"year": 2024}') == 2024


async def test_an_annotated_struct_is_decoded(threads):
    def handler(prize: Prize) -> object:
        return prize.year

    assert await called(handler, threads, b'{"year": 2024, "category": "physics"}') == 2024


async def test_an_optional_struct_is_decoded_and_may_be_missing(threads):
    async def handler(prize: Prize | None) -> object:
        return prize and prize.year

    assert await called(handler, threads, b'{"year": 2024}') == 2024
    assert await called(handler, threads, None) is None


async def test_a_returned_struct_leaves_undeclared_members_as_they_are(threads):
    def handler(prize: Prize) -> Prize:
        return Prize(year=prize.year + 1)

    document = await called(handler, threads, b'{"year": 2023, "motivation": "old", "category": "physics"}')
    assert document == {"year": 2024, "motivation": None, "category": "physics"}


async def test_undeclared_members_of_nested_structs_stay_too(threads):
    class Laureate(Struct, rename="camel"):
        first_name: str

    class Award(Struct):
        laureate: Laureate
        share: int | UnsetType = UNSET

    def handler(award: Award) -> Award:
        return Award(Laureate(award.laureate.first_name.upper()))

    document = await called(handler, threads, b'{"laureate": {"firstName": "Ada", "id": 7}, "share": 2, "year": 1}')
    assert document == {"laureate": {"firstName": "ADA", "id": 7}, "year": 1}


async def test_a_struct_of_another_type_is_the_whole_document(threads):
    class Summary(Struct):
        text: str

    def handler(prize: Prize) -> Summary:
        return Summary(str(prize.year))

    assert await called(handler, threads, b'{"year": 2024, "category": "physics"}') == Summary("2024")


async def test_a_document_that_does_not_fit_is_refused_with_the_place(threads):
    def handler(prize: Prize) -> None:
        return None

    with pytest.raises(UnfitDocument, match=r"processor f: Expected `int`, got `str` - at `\$.year`"):
        await called(handler, threads, b'{"year": "2024"}')


async def test_a_plain_function_that_runs_out_of_items_fails_instead_of_hanging(threads):
    with pytest.raises(RuntimeError, match="StopIteration"):
        await called(lambda: next(iter([])), threads)


@pytest.mark.parametrize("handler", [lambda a, b, c: None, lambda a, b, c, d=1: None])
def test_a_function_of_more_than_two_required_arguments_is_refused(handler):
    with pytest.raises(UnfitSignature, match="f: a function takes a document and a context, not 3 arguments"):
        _ = Function("processor", "f", handler).signature


def test_a_function_that_does_not_tell_its_parameters_is_refused():
    with pytest.raises(UnfitSignature, match=r"^f: "):
        _ = Function("processor", "f", contextvars.ContextVar("x").get).signature


def test_an_annotation_that_cannot_be_resolved_is_refused():
    def handler(document: "NoSuchType") -> None:  # noqa: F821  # the point
        return None

    with pytest.raises(UnfitSignature, match="f: an annotation cannot be resolved"):
        _ = Function("processor", "f", handler).signature


def test_keyword_parameters_with_defaults_are_left_alone():
    shape = Function("processor", "f", lambda document, *, retries=3: None).signature
    assert (shape.takes_document, shape.takes_context) == (True, False)
