"""Entities of a model: a list by condition, page by page, and a builder of conditions (docs/console.md#pages)."""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from statewright.console.acts import send
from statewright.console.calls import CALL_TIMEOUT_S, ApiCall, Reply, build_entity_call, build_ops_call, build_path
from statewright.console.conditions import (
    EVERYTHING,
    NUMBERS,
    BuilderNode,
    Condition,
    Group,
    Lifecycle,
    MalformedQuery,
    Simple,
    add_part,
    build_nodes,
    describe_condition,
    fits_link,
    list_unknown_paths,
    read_condition,
    read_fields,
    remove_part,
    write_condition,
)
from statewright.console.live import ModelCounts
from statewright.console.pages.model import (
    ROOT,
    ModelHead,
    build_model_crumbs,
    build_model_path,
    list_head_calls,
    read_form_key,
    read_key,
    view_head,
)
from statewright.console.request import (
    TOO_EXPENSIVE,
    Action,
    Form,
    InvalidField,
    Page,
    PageContext,
    Query,
    Routes,
    build_part,
    build_problem,
)
from statewright.console.views.entities import (
    EntityRow,
    Schema,
    build_rows,
    build_schema,
    choose_columns,
    write_csv,
    write_lines,
)
from statewright.console.views.page import Download, Problem, View, format_count
from statewright.console.views.records import Envelope
from statewright.instants import from_rfc3339
from statewright.jsonval.codec import decode_stored, encode
from statewright.operations.entity_answers import WrittenChunk
from statewright.operations.listings import MatchCount

SORTABLE: Final = (("@id", "Id"), ("@state", "State"), ("@creationDate", "Created"), ("@lastUpdateTime", "Changed"))
LIST_TIMEOUT_S: Final = 6.0
SEARCH_TIMEOUT_S: Final = 2.0
"""Of a list with a condition or a sort key, which may have no index: then it is too expensive for a page."""
GAVE_UP: Final = TOO_EXPENSIVE | {"CALL_TIMEOUT"}
EDITED: Final = ("draft", "q", "after", "count", "act")
MAX_COUNT: Final = 10**18 - 1
CREATED: Final = "/entity/JSON/{name}/{version}"
FORMATS: Final = ("ndjson", "csv")


class Heading(Struct, frozen=True, kw_only=True):
    """A column that can be sorted by."""

    label: str
    href: str | None
    order: str
    """``ascending``, ``descending`` or ``none``."""
    is_number: bool = False


class EntitiesView(Struct, frozen=True, kw_only=True):
    """A page of the list."""

    head: ModelHead
    schema: Schema
    builder: BuilderNode
    raw: str
    is_draft: bool
    asked: Query
    words: str
    columns: tuple[str, ...]
    headings: tuple[Heading, ...]
    rows: tuple[EntityRow, ...]
    next: str | None
    first: str | None
    total: str | None
    kept: tuple[tuple[str, str], ...]
    """Parameters that the builder's form has to bring along."""
    downloads: tuple[tuple[str, str], ...]
    call: ApiCall
    """The search, to be made by command."""
    job: tuple[tuple[str, str], ...]
    """Fields of the form that runs it as a search job."""
    news: str | None
    """The part that announces further entities; None: it cannot be told cheaply."""
    problem: Problem | None = None
    is_too_expensive: bool = False
    unknown: tuple[tuple[str, str | None], ...] = ()
    """Paths that are none of the model, and the nearest one that is."""


class EntityNewsView(Struct, frozen=True, kw_only=True):
    """How many entities have come since the list was shown. ``again`` is where to ask next."""

    more: int
    since: int | None
    again: str


class NewEntityView(Struct, frozen=True, kw_only=True):
    """The form of a new entity."""

    head: ModelHead
    sample: str


async def show_entities(request: PageContext) -> View:
    """A page of the entities that match."""
    name, version = read_key(request)
    query = request.query
    if state := query.get("state"):
        wanted = _add(_read_query(query.get("q")), Lifecycle(field="state", operator="EQUALS", value=_quote(state)))
        return View(redirect=request.path + query.change(state=None, q=write_condition(wanted), draft=None, after=None))
    condition = _read_query(query.get("q"))
    calls = [_build_search(query, (name, version), condition)]
    if query.get("count"):
        calls.append(_ask("count", query, (name, version), condition))
    export, found, *others = await request.call(
        build_entity_call("model", "export", "SIMPLE_VIEW", name, version),
        *calls,
        *list_head_calls(request, name, version),
    )
    counted = others.pop(0) if query.get("count") else None
    head = view_head(name, version, tuple(others))
    return view_entities(request.path, query, head, export, found, counted)


def view_entities(path: str, query: Query, head: ModelHead, export: Reply, found: Reply, counted: Reply | None) -> View:
    """The list from the answers of the API."""
    schema = build_schema(export.require().value)
    condition = _read_query(query.get("q"))
    draft = query.get("draft")
    shown = _read_query(draft) if draft else condition
    columns = choose_columns(query.get_all("columns"), schema.fields)
    cursor = found.next_cursor
    data = EntitiesView(
        head=head,
        schema=schema,
        builder=build_nodes(shown, {field.path: field.types for field in schema.fields}),
        raw=write_condition(shown),
        is_draft=bool(draft),
        asked=query,
        words=describe_condition(condition),
        columns=columns,
        headings=_build_headings(query, schema, columns),
        rows=build_rows(found.pick_items(Envelope), columns),
        next=query.change(after=cursor, draft=None, count=None) if cursor else None,
        first=query.change(after=None, draft=None) if query.get("after") else None,
        total=None if counted is None else _describe_count(counted),
        kept=tuple(pair for pair in query.pairs if pair[0] not in EDITED),
        downloads=tuple((kind, f"/download{query.change(format=kind, draft=None, count=None)}") for kind in FORMATS),
        call=found.call,
        job=(*head.key, *((name, query.get(name)) for name in ("q", "sort", "at") if query.get(name))),
        news=_build_news_path(query, head, condition),
        problem=None if found.is_ok else _explain(found, head, path + query.change()),
        is_too_expensive=not found.is_ok and build_problem(found).code in GAVE_UP,
        unknown=list_unknown_paths(condition, schema.paths),
    )
    crumbs = build_model_crumbs(head.name, head.version)
    return View(title=f"Entities of {head.name}/{head.version}", data=data, crumbs=crumbs, at=_read_at(query))


def _build_news_path(query: Query, head: ModelHead, condition: Condition) -> str | None:
    """Entities of the whole model, or of one state, are counted anyhow; others would have to be searched for."""
    if query.get("after") or query.get("at") or not head.is_locked:
        return None
    path = f"/console/part{build_path('models', head.name, head.version)}/entities/news"
    if condition == EVERYTHING:
        return path
    state = _find_only_state(condition)
    return None if state is None else path + Query(()).change(state=state)


def _find_only_state(condition: Condition) -> str | None:
    if isinstance(condition, Group) and condition.operator == "AND" and len(condition.conditions) == 1:
        condition = condition.conditions[0]
    if not isinstance(condition, Lifecycle) or (condition.field, condition.operator) != ("state", "EQUALS"):
        return None
    state = decode_stored((condition.value or "null").encode())
    return state if isinstance(state, str) else None


async def show_entity_news(request: PageContext) -> View:
    """How many entities more there are than at first, by the counts that are kept of the model."""
    name, version = read_key(request)
    counts = await request.counts.count(request.client, request.viewer.tenant, name, version)
    counts.require_model()
    return view_entity_news(request.path, request.query, counts)


def view_entity_news(path: str, query: Query, counts: ModelCounts) -> View:
    """The announcement from the counts. Raises ``InvalidField``."""
    state = query.get("state")
    begin = query.get_number("since", most=MAX_COUNT) if query.get("since") else None
    if not counts.is_counting and counts.failed is None:
        now = counts.get(state) if state else counts.total
        begin = now if begin is None else begin
    else:
        now = begin or 0
    again = path + Query(()).change(state=state or None, since=None if begin is None else str(begin))
    return View(data=EntityNewsView(more=max(0, now - (begin or 0)), since=begin, again=again))


async def build_query(request: PageContext) -> View:
    """What the form of the builder asks for, as the address of the list: nothing is stored in between."""
    name, version = read_key(request)
    fields = dict(request.query.pairs)
    act, _, place = request.query.get("act").partition(":")
    try:
        edited = read_condition(request.query.get("raw")) if act == "raw" else read_fields(fields)
        if act == "leaf":
            edited = add_part(edited, place, Simple(path="", operator="EQUALS", value='""'))
        elif act == "state":
            edited = add_part(edited, place, Lifecycle(field="state", operator="EQUALS", value='""'))
        elif act == "group":
            edited = add_part(edited, place, Group(operator="OR"))
        elif act == "remove":
            edited = remove_part(edited, place)
    except MalformedQuery as malformed:
        raise InvalidField("condition", str(malformed)) from malformed
    if not fits_link(edited):
        raise InvalidField("condition", "is too long for a link; run it as a search job")
    builder = ("act", "raw", "q", "draft", "after", "count")
    kept = Query(tuple(pair for pair in request.query.pairs if pair[0] not in builder and not pair[0].startswith("c.")))
    text = None if edited == EVERYTHING else write_condition(edited)
    applied = request.query.get("q") or None
    changes = {"q": text} if act in {"apply", "raw"} else {"q": applied, "draft": write_condition(edited)}
    return View(redirect=build_model_path(name, version, "entities") + kept.change(**changes))


async def show_entities_download(request: PageContext) -> View:
    """The page of the list as a file."""
    name, version = read_key(request)
    kind = request.query.get_choice("format", FORMATS)
    export, found = await request.call(
        build_entity_call("model", "export", "SIMPLE_VIEW", name, version),
        _build_search(request.query, (name, version), _read_query(request.query.get("q"))),
    )
    if kind == "ndjson":
        lines = write_lines(found.require().items)
        return View(download=Download("entities.ndjson", lines, "application/x-ndjson"))
    columns = choose_columns(request.query.get_all("columns"), build_schema(export.value).fields)
    table = write_csv(found.require().pick_items(Envelope), columns)
    return View(download=Download("entities.csv", table, "text/csv; charset=utf-8"))


async def show_new_entity(request: PageContext) -> View:
    """The form of a new entity."""
    name, version = read_key(request)
    replies = await request.call(*list_head_calls(request, name, version))
    data = NewEntityView(head=view_head(name, version, replies), sample="")
    return View(title=f"New entity of {name}/{version}", data=data, crumbs=build_model_crumbs(name, version))


def _read_query(text: str) -> Condition:
    if not text:
        return EVERYTHING
    try:
        return read_condition(text)
    except MalformedQuery as malformed:
        raise InvalidField("q", str(malformed)) from malformed


def _add(condition: Condition, part: Condition) -> Condition:
    """Both; a leaf on the state replaces another one beside it."""
    if condition == EVERYTHING:
        return part
    if isinstance(condition, Group) and condition.operator == "AND":
        return Group(conditions=(*condition.conditions, part))
    return Group(conditions=(condition, part))


def _quote(text: str) -> str:
    return encode(text).decode()


def _read_at(query: Query) -> str | None:
    """The instant that is looked at. Raises ``InvalidField``."""
    text = query.get("at")
    if not text:
        return None
    if from_rfc3339(text) is None:
        raise InvalidField("at", "is no time of RFC 3339")
    return text


def _ask(
    act: str,
    query: Query,
    key: tuple[str, int],
    condition: Condition,
    page: Mapping[str, int | str | None] | None = None,
    timeout_s: float = CALL_TIMEOUT_S,
) -> ApiCall:
    """Of the entities of a model that match, what ``act`` asks."""
    return build_ops_call(
        "models",
        *key,
        "entities",
        act,
        method="POST",
        query={**(page or {}), "pointInTime": _read_at(query)},
        body=write_condition(condition).encode(),
        timeout_s=timeout_s,
    )


def _build_search(query: Query, key: tuple[str, int], condition: Condition) -> ApiCall:
    sort = query.get("sort") or None
    timeout_s = LIST_TIMEOUT_S if condition == EVERYTHING and not sort else SEARCH_TIMEOUT_S
    return _ask("search", query, key, condition, query.read_page() | {"sort": sort}, timeout_s)


def _describe_count(reply: Reply) -> str:
    if not reply.is_ok:
        return "too many to count quickly"
    counted = reply.read(MatchCount)
    return format_count(counted.total, is_lower_bound=counted.total_is_lower_bound)


def _build_headings(query: Query, schema: Schema, columns: tuple[str, ...]) -> tuple[Heading, ...]:
    types = {field.path: field.types for field in schema.fields}
    chosen = (
        _build_heading(
            query,
            column,
            column,
            is_sortable=column in types and "[*]" not in column,
            is_number=bool(types.get(column)) and NUMBERS.issuperset(types[column]),
        )
        for column in columns
    )
    fixed = [_build_heading(query, key, label) for key, label in SORTABLE]
    return (*fixed[:2], *chosen, *fixed[2:])


def _build_heading(query: Query, key: str, label: str, *, is_sortable: bool = True, is_number: bool = False) -> Heading:
    """A second click turns the order round, a third one takes it away."""
    current = query.get("sort")
    if not is_sortable:
        return Heading(label=label, href=None, order="none", is_number=is_number)
    ascending, descending = current == key, current == f"{key}:desc"
    wanted = f"{key}:desc" if ascending else None if descending else key
    return Heading(
        label=label,
        href=query.change(sort=wanted, after=None, draft=None),
        order="ascending" if ascending else "descending" if descending else "none",
        is_number=is_number,
    )


def _explain(found: Reply, head: ModelHead, retry: str) -> Problem:
    """The problem; of a search that gave up what helps, beside a search job: an index, and a narrower condition."""
    problem = build_problem(found, retry=retry)
    if problem.code not in GAVE_UP:
        return problem
    return replace(
        problem,
        title="This search takes too long",
        detail="More entities would have to be looked at than a page waits for.",
        retry=None,
        offers=(
            ("#condition", "Narrow it"),
            (build_model_path(head.name, head.version, "indexes"), "Declare an index"),
            (retry, "Try again"),
        ),
    )


def _build_search_job(form: Form) -> ApiCall:
    query = {"sort": form.get("sort") or None, "pointInTime": form.get("at") or None}
    body = write_condition(_read_query(form.get("q"))).encode()
    return build_entity_call("search", "async", *read_form_key(form), method="POST", query=query, body=body)


def _follow_search_job(_form: Form, reply: Reply) -> str:
    return build_path("console", "searches", reply.value) if isinstance(reply.value, str) else "/console/searches"


def _follow_creation(form: Form, reply: Reply) -> str:
    name, version = read_form_key(form)
    ids = [each for written in reply.read_items(WrittenChunk) for each in written.entity_ids]
    created = build_model_path(name, version, "entities")
    if not ids:
        return created
    leaf = Lifecycle(field="id", operator="EQUALS", value=_quote(ids[0]))
    return created + Query(()).change(q=write_condition(leaf))


ROUTES: Final[Routes] = (
    Page(name="entities", path=f"{ROOT}/entities", show=show_entities, feature="entity-search"),
    Page(name="entities_build", path=f"{ROOT}/entities/build", show=build_query, is_file=True),
    Page(name="entities_download", path=f"{ROOT}/entities/download", show=show_entities_download, is_file=True),
    Page(name="new_entity", path=f"{ROOT}/entities/new", show=show_new_entity),
    build_part("entity_news", "/models/{name}/{version}/entities/news", show_entity_news),
    Action("run_search", "Run as search job", _build_search_job, _follow_search_job),
    Action(
        "create_entity", "Create entity", send("POST", "/entity/JSON/{name}/{version}", "document"), _follow_creation
    ),
)
