"""Find: an id is looked up as all that has ids, other text as a name and a business key; one look-up each
(docs/console.md#pages).
"""

import re
from collections.abc import Callable
from functools import partial
from typing import Final
from urllib.parse import quote

from msgspec import Struct

from statewright.console.calls import ApiCall, Reply, build_entity_call, build_ops_call, build_root_call
from statewright.console.pages.model import build_models_call, list_models
from statewright.console.request import InvalidField, Page, PageContext, Routes, build_problem
from statewright.console.views.page import Problem, View, format_model
from statewright.console.views.records import Envelope
from statewright.operations.listings import UniqueKeyHit

MAX_CHARS: Final = 500
MAX_HITS: Final = 50
MAX_KEYED: Final = 10
"""Entities with the same unique key, and instances of a language with the same business key, that are shown."""
NOT_FOUND: Final = frozenset({400, 404, 410})

_PARAMETER: Final = re.compile(r"\{\w+\}")
_UUID: Final = re.compile(r"[0-9a-fA-F]{8}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{12}")
_ULID: Final = re.compile(r"[0-7][0-9A-HJKMNP-TV-Za-hjkmnp-tv-z]{25}")


class Hit(Struct, frozen=True, kw_only=True):
    """What was found."""

    kind: str
    text: str
    detail: str = ""
    href: str
    is_exact: bool = True


class FindView(Struct, frozen=True, kw_only=True):
    """What was found, and where was looked."""

    text: str
    hits: tuple[Hit, ...] = ()
    looked: tuple[str, ...] = ()
    problems: tuple[tuple[str, Problem], ...] = ()


class Place(Struct, frozen=True):
    """Something that has ids. ``page`` is the path of its page: what has none is not looked for."""

    kind: str
    page: str
    build: Callable[[str], ApiCall]
    tell: Callable[[Reply], str | None]
    """What is said of a hit; None: the answer has none."""
    feature: str | None = None


class _Status(Struct, frozen=True):
    """What all that has a status has in common, and its name where it has one."""

    status: str = ""
    name: str = ""


class _Keyed(Struct, frozen=True):
    """An instance of any language, as lists have it."""

    id: str
    status: str = ""


def _tell_entity(reply: Reply) -> str | None:
    meta = reply.read(Envelope).meta
    return f"{format_model(meta.model_key)} in {meta.state}"


def _tell_status(reply: Reply) -> str | None:
    return reply.pick(_Status).status.lower()


def _tell_items(reply: Reply) -> str | None:
    return f"wrote {len(reply.items)} or more entities" if reply.items else None


_INSTANCE: Final = "/console/instances/{instance}"

PLACES: Final = (
    Place("entity", "/console/entities/{id}", partial(build_entity_call, "entity"), _tell_entity),
    Place("instance", _INSTANCE, partial(build_root_call, "v1", "instances"), _tell_status),
    Place("instance of a flow", _INSTANCE, partial(build_root_call, "v1", "flows", "instances"), _tell_status),
    Place("execution", _INSTANCE, partial(build_root_call, "v1", "executions"), _tell_status),
    Place(
        "transaction",
        "/console/transactions/{id}",
        lambda text: build_ops_call("transactions", text, "entities", query={"limit": 1}),
        _tell_items,
        feature="transactions",
    ),
    Place(
        "incident", "/console/incidents/{id}", partial(build_ops_call, "incidents"), _tell_status, feature="incidents"
    ),
    Place("message", "/console/messages/{id}", partial(build_entity_call, "message"), lambda _reply: ""),
)


async def show_find(request: PageContext) -> View:
    """What a text is the id or name of. One exact hit is shown at once."""
    text = request.query.get("q").strip()
    if len(text) > MAX_CHARS:
        raise InvalidField("q", f"has at most {MAX_CHARS} characters")
    if not text:
        return View(title="Find", data=FindView(text=""))
    is_id = _UUID.fullmatch(text) is not None or _ULID.fullmatch(text) is not None
    view = await (_find_id(request, text) if is_id else _find_name(request, text))
    exact = [hit for hit in view.hits if hit.is_exact]
    if len(exact) == 1:
        return View(redirect=exact[0].href)
    return View(title=f"Find {text}", data=view)


async def _find_id(request: PageContext, text: str) -> FindView:
    features = request.viewer.features
    places = [
        place
        for place in PLACES
        if place.page in request.page_paths and (place.feature is None or place.feature in features)
    ]
    replies = await request.call(*(place.build(text) for place in places))
    return view_ids(text, tuple(zip(places, replies, strict=True)))


def view_ids(text: str, answers: tuple[tuple[Place, Reply], ...]) -> FindView:
    """The hits of an id, from the answers of all places. A place that fails does not hide the others."""
    hits: list[Hit] = []
    problems: list[tuple[str, Problem]] = []
    for place, reply in answers:
        detail = place.tell(reply) if reply.is_ok else None
        if detail is not None:
            href = _PARAMETER.sub(lambda _: quote(text, safe=""), place.page)
            hits.append(Hit(kind=place.kind, text=text, detail=detail, href=href))
        elif not reply.is_ok and reply.status not in NOT_FOUND:
            problems.append((place.kind, build_problem(reply)))
    looked = tuple(place.kind for place, _ in answers)
    return FindView(text=text, hits=tuple(hits), looked=looked, problems=tuple(problems))


async def _find_name(request: PageContext, text: str) -> FindView:
    has_definitions = "/console/definitions/{definition}" in request.page_paths
    definition = (build_root_call("v1", "definitions", text),) if has_definitions else ()
    keyed = _list_keyed(text) if _INSTANCE in request.page_paths else ()
    has_keys = "unique-keys" in request.viewer.features
    entities = (build_ops_call("unique-keys", text, "entities", query={"limit": MAX_KEYED}),) if has_keys else ()
    models, *others = await request.call(build_models_call(), *entities, *definition, *keyed)
    unique = others.pop(0) if entities else None
    found = others.pop(0) if definition else None
    return view_names(text, models, found, tuple(others), unique)


def _list_keyed(text: str) -> tuple[ApiCall, ...]:
    """The instances of each language that have a business key, the newest first."""
    query: dict[str, str | int] = {"businessKey": text, "pageSize": MAX_KEYED}
    return tuple(
        build_root_call("v1", *path, query=query) for path in (("instances",), ("flows", "instances"), ("executions",))
    )


def view_names(
    text: str,
    models: Reply,
    definition: Reply | None,
    keyed: tuple[Reply, ...] = (),
    unique: Reply | None = None,
) -> FindView:
    """Models with the text in their names, the definition with this id, entities with this unique key, and instances
    with this business key.
    """
    hits = [
        Hit(
            kind="model",
            text=f"{row.name}/{row.version}",
            detail=row.state.lower(),
            href=f"/console/models/{quote(row.name, safe='')}/{row.version}",
            is_exact=text in {row.name, f"{row.name}/{row.version}"},
        )
        for row in list_models(models)
        if text.lower() in f"{row.name}/{row.version}".lower()
    ]
    hits.sort(key=lambda hit: not hit.is_exact)
    if definition is not None and definition.is_ok:
        href = f"/console/definitions/{quote(text, safe='')}"
        hits.append(Hit(kind="definition", text=text, detail=definition.pick(_Status).name, href=href))
    for entity in unique.pick_items(UniqueKeyHit) if unique is not None and unique.is_ok else ():
        href = f"/console/entities/{quote(entity.entity_id, safe='')}"
        detail = f"{format_model(entity.model)} in {entity.state}, {entity.key} is {text}"
        hits.append(Hit(kind="entity", text=entity.entity_id, detail=detail, href=href))
    for one in (each for reply in keyed if reply.is_ok for each in reply.pick_items(_Keyed)):
        href = f"/console/instances/{quote(one.id, safe='')}"
        hits.append(Hit(kind="instance", text=one.id, detail=f"{text}, {one.status.lower()}", href=href))
    asked = (("models", models), ("unique key", unique))
    problems = tuple((name, build_problem(reply)) for name, reply in asked if reply is not None and not reply.is_ok)
    looked = (
        "model",
        *(("unique key",) if unique else ()),
        *(("definition",) if definition else ()),
        *(("business key",) if keyed else ()),
    )
    return FindView(text=text, hits=tuple(hits[:MAX_HITS]), looked=looked, problems=problems)


ROUTES: Final[Routes] = (Page(name="find", path="/console/find", show=show_find),)
