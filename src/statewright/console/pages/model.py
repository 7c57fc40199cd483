"""Models: the list; of each its schema, indexes, settings and counts of entities; what can be done to it, one call of
the API each (docs/console.md#pages).
"""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from statewright.console.acts import Suspendable, ask, build_acts, lead_to, read_text, read_text_if_any, send
from statewright.console.calls import (
    ApiCall,
    CallFailed,
    Reply,
    build_entity_call,
    build_ops_call,
    build_path,
    build_problem_reply,
)
from statewright.console.live import CONFIRMATION_PATIENT_S, ModelCounts
from statewright.console.process_languages import MODELS
from statewright.console.request import (
    ADMIN,
    Action,
    Form,
    Navigation,
    Page,
    PageContext,
    Routes,
    build_part,
    build_problem,
    parse_version,
)
from statewright.console.views.entities import Schema, build_schema
from statewright.console.views.page import Crumb, Download, Problem, View, format_count
from statewright.console.views.records import ModelRow, Validation
from statewright.jsonval.values import JsonObject
from statewright.operations.entity_answers import SearchIndex
from statewright.operations.incidents import Incident
from statewright.operations.suspensions import SuspensionView

ROOT: Final = "/console/models/{name}/{version}"
MODELS_CRUMB: Final = Crumb("Models", "/console/models")
CONVERTERS: Final = ("SIMPLE_VIEW", "JSON_SCHEMA")
CHANGE_LEVELS: Final = ("ARRAY_LENGTH", "ARRAY_ELEMENTS", "TYPE", "STRUCTURAL")
MAX_LISTED: Final = 500
MAX_SUSPENSIONS: Final = 1000
MAX_STRANDED: Final = 5


class ModelsView(Struct, frozen=True, kw_only=True):
    """The list, and what it was asked for."""

    rows: tuple[ModelRow, ...]
    filter: str
    total: int
    is_cut: bool


async def show_models(request: PageContext) -> View:
    """Models by name, those that contain a text."""
    calls = [build_models_call()]
    if "suspensions" in request.viewer.features:
        calls.append(build_ops_call("suspensions", query={"scope": "MODEL", "active": True, "limit": MAX_SUSPENSIONS}))
    models, *suspensions = await request.call(*calls)
    return view_models(models.require(), suspensions[0] if suspensions else None, request.query.get("filter"))


def view_models(reply: Reply, suspensions: Reply | None, wanted: str) -> View:
    """The list from the answers of the API."""
    listed = suspensions.read_items(SuspensionView) if suspensions is not None else ()
    suspended = {(each.model.name, each.model.version) for each in listed if each.model is not None}
    rows = sorted(list_models(reply), key=lambda row: row.name in MODELS)  # those of its users before the service's own
    matching = [row for row in rows if wanted.lower() in row.name.lower()]
    data = ModelsView(
        rows=tuple(replace(row, is_suspended=(row.name, row.version) in suspended) for row in matching[:MAX_LISTED]),
        filter=wanted,
        total=len(rows),
        is_cut=len(matching) > MAX_LISTED,
    )
    return View(title="Models", data=data)


async def show_new_model(_request: PageContext) -> View:
    """The form of a new model."""
    return View(title="New model", crumbs=(MODELS_CRUMB,))


def build_models_call() -> ApiCall:
    """The call that lists all models, the built-in ones included."""
    return build_entity_call("model", "", query={"includeBuiltin": True})


def list_models(reply: Reply) -> list[ModelRow]:
    """The models of an answer, by name and version."""
    return sorted(reply.pick_items(ModelRow), key=lambda row: (row.name, row.version))


# One model.


class ModelHead(Struct, frozen=True, kw_only=True):
    """What stands above every page of a model."""

    name: str
    version: int
    state: str
    suspensions: tuple[SuspensionView, ...] = ()
    stranded: tuple[Incident, ...] = ()
    """Of states in which entities are and that no active workflow has."""

    @property
    def is_locked(self) -> bool:
        """Whether entities can be created."""
        return self.state == "LOCKED"

    @property
    def is_builtin(self) -> bool:
        """Whether it belongs to the service itself: nobody changes it, or writes its entities."""
        return self.name in MODELS

    @property
    def is_suspended(self) -> bool:
        """Whether all of its entities stand still."""
        return any(each.scope == "MODEL" for each in self.suspensions)

    @property
    def key(self) -> tuple[tuple[str, str], ...]:
        """The fields of every form about the model."""
        return ("name", self.name), ("version", str(self.version))


class ModelTab(Struct, frozen=True, kw_only=True):
    """Schema, indexes or settings of a model. ``field``: the path for which an index is to be declared."""

    head: ModelHead
    schema: Schema
    rows: tuple[SearchIndex, ...]
    field: str
    levels: tuple[str, ...] = CHANGE_LEVELS

    @property
    def indexed(self) -> frozenset[str]:
        """The paths that have an index."""
        return frozenset(each.path for each in self.rows)


class CountsView(Struct, frozen=True, kw_only=True):
    """Entities by state."""

    name: str
    version: int
    counts: ModelCounts
    problem: Problem | None = None


def read_key(request: PageContext) -> tuple[str, int]:
    """Name and version of the model in the path. Raises ``InvalidField``."""
    return request.params["name"], parse_version(request.params["version"])


def build_model_path(name: str, version: int, *more: str) -> str:
    """The path of a page of a model."""
    return build_path("console", "models", name, version, *more)


def build_model_crumbs(name: str, version: int, workflow: str = "") -> tuple[Crumb, ...]:
    """The way to a page below that of a model, or of one of its workflows."""
    way = (MODELS_CRUMB, Crumb(f"{name}/{version}", build_model_path(name, version)))
    return (*way, Crumb(workflow, build_model_path(name, version, "workflows", workflow))) if workflow else way


def list_head_calls(request: PageContext, name: str, version: int) -> tuple[ApiCall, ...]:
    """What is asked for the head of a page of a model."""
    calls = [build_models_call()]
    if "suspensions" in request.viewer.features:
        calls.append(build_ops_call("suspensions", query={"model": name, "active": True}))
        stranded = {"model": f"{name}/{version}", "kind": "STATE_UNKNOWN", "limit": MAX_STRANDED}
        calls.append(build_ops_call("incidents", query=stranded))
    return tuple(calls)


async def call_with_head(request: PageContext, *calls: ApiCall) -> tuple[ModelHead, tuple[Reply, ...]]:
    """The replies to some calls, and the head of the page. Raises ``CallFailed`` where there is no such model."""
    name, version = read_key(request)
    replies = await request.call(*calls, *list_head_calls(request, name, version))
    return view_head(name, version, replies[len(calls) :]), replies[: len(calls)]


def view_head(name: str, version: int, replies: tuple[Reply, ...]) -> ModelHead:
    """The head from the answers. Raises ``CallFailed`` where there is no such model."""
    models, *concerns = replies
    row = next((each for each in list_models(models.require()) if (each.name, each.version) == (name, version)), None)
    if row is None:
        detail = f"There is no model {name}/{version}, or it is of another tenant."
        raise CallFailed(build_problem_reply(models.call, HTTPStatus.NOT_FOUND, "MODEL_NOT_FOUND", detail))
    listed = concerns[0].read_items(SuspensionView) if concerns else ()
    return ModelHead(
        name=name,
        version=version,
        state=row.state,
        suspensions=tuple(each for each in listed if each.model is not None and each.model.version == version),
        stranded=concerns[1].read_items(Incident) if concerns[1:] else (),
    )


async def show_tab(request: PageContext) -> View:
    """The fields of a model; its declared indexes with the progress of their builds; or what can be set of it."""
    key, tab = read_key(request), request.path.rpartition("/")[2]
    calls = [build_entity_call("model", "export", "SIMPLE_VIEW", *key), build_entity_call("model", *key, "index")]
    head, (export, *indexes) = await call_with_head(request, *calls[: 1 if tab == "settings" else 2])
    (indexes[0] if tab == "indexes" else export).require()
    data = ModelTab(
        head=head,
        schema=build_schema(export.value),
        rows=tuple(row for reply in indexes for row in reply.read_items(SearchIndex)),
        field=request.query.get("path"),
    )
    return build_model_view(head, data)


async def show_schema_download(request: PageContext) -> View:
    """The export of a model as a file."""
    name, version = read_key(request)
    converter = request.query.get_choice("converter", CONVERTERS)
    reply = await request.call_one(build_entity_call("model", "export", converter, name, version))
    return View(download=Download(f"model-{version}-{converter.lower()}.json", reply.require().body))


async def show_workflows_download(request: PageContext) -> View:
    """The workflows of a model as a file."""
    name, version = read_key(request)
    reply = await request.call_one(build_entity_call("model", name, version, "workflow", "export"))
    return View(download=Download(f"workflows-{version}.json", reply.require().body))


async def show_counts(request: PageContext) -> View:
    """Entities of a model by state, as counted a moment ago."""
    name, version = read_key(request)
    counts = await request.counts.count(request.client, request.viewer.tenant, name, version)
    counts.require_model()
    problem = None if counts.failed is None else build_problem(counts.failed, retry=request.path)
    return View(data=CountsView(name=name, version=version, counts=counts, problem=problem))


def build_model_view(head: ModelHead, data: Struct) -> View:
    """A page of a model, with the way to it."""
    return View(title=f"{head.name}/{head.version}", data=data, crumbs=(MODELS_CRUMB,))


MODEL: Final = "/model/{name}/{version}"


class ValidationView(Struct, frozen=True, kw_only=True):
    """Whether a document fits."""

    name: str
    version: int
    document: str
    is_valid: bool
    messages: tuple[str, ...]
    problem: Problem | None


def read_form_key(form: Form) -> tuple[str, int]:
    """The model that a form is about. Raises ``InvalidField``."""
    return form.require("name"), parse_version(form.require("version"))


def follow_model(form: Form, _reply: Reply) -> str:
    """Back to the page of the model that the form is on."""
    tab = form.get_choice("tab", ("", "schema", "indexes", "settings"))
    return build_model_path(*read_form_key(form), *([tab] if tab else []))


def _build_change_level(form: Form) -> ApiCall:
    level = form.get_choice("level", CHANGE_LEVELS)
    return build_entity_call("model", *read_form_key(form), "changeLevel", level, method="POST")


async def _show_validation(_request: PageContext, form: Form, reply: Reply) -> View | None:
    if reply.status == HTTPStatus.NOT_FOUND:
        return None
    name, version = read_form_key(form)
    told = reply.pick(Validation)
    is_valid = reply.is_ok and told.success
    data = ValidationView(
        name=name,
        version=version,
        document=form.get("document"),
        is_valid=is_valid,
        messages=() if is_valid else tuple(told.message.removeprefix("Validation failed: ").split("; ")),
        problem=None if reply.is_ok else build_problem(reply),
    )
    return View(title="Validate a document", data=data, crumbs=build_model_crumbs(name, version))


async def _tell_entities(request: PageContext, form: Form) -> Mapping[str, str]:
    """The entities of a model for a confirmation, with the age of the number."""
    counts = await request.counts.count(
        request.client, request.viewer.tenant, *read_form_key(form), patience_s=CONFIRMATION_PATIENT_S
    )
    if counts.failed is not None or counts.is_counting:
        return {"entities": "its entities (too many to count quickly)"}
    age = "now" if counts.age_s < 1 else f"{counts.age_s:.0f} s ago"
    return {"entities": f"{format_count(counts.total)} entities (counted {age})"}


def _read_target(form: Form) -> JsonObject:
    name, version = read_form_key(form)
    return {"scope": "MODEL", "model": {"name": name, "version": version}}


ACTS: Final[Routes] = (
    Action("lock_model", "Lock model", send("PUT", f"{MODEL}/lock"), follow_model),
    Action(
        "unlock_model",
        "Unlock model",
        send("PUT", f"{MODEL}/unlock"),
        follow_model,
        ask(
            "Unlock {name}/{version}?",
            "No entity can be created until it is locked again. It must have no entity now.",
            back=f"{ROOT}/settings",
        ),
    ),
    Action(
        "delete_model",
        "Delete model",
        send("DELETE", MODEL),
        lead_to("/console/models"),
        ask(
            "Delete {name}/{version} for good?",
            "It has {entities}.",
            "Its schema, change level and unique keys are lost. Its workflows are kept under its name and version.",
            back=f"{ROOT}/settings",
            tell=_tell_entities,
        ),
        is_dangerous=True,
    ),
    Action("set_change_level", "Set change level", _build_change_level, follow_model),
    Action("set_unique_keys", "Set unique keys", send("PUT", f"{MODEL}/unique-keys", "keys"), follow_model),
    Action(
        "learn_sample",
        "Learn from a sample",
        send("POST", "/model/import/JSON/SAMPLE_DATA/{name}/{version}", "sample"),
        follow_model,
    ),
    Action(
        "validate_document",
        "Validate a document",
        send("POST", "/model/validate/{name}/{version}", "document"),
        follow_model,
        show=_show_validation,
    ),
    Action(
        "declare_index",
        "Declare index",
        send("POST", f"{MODEL}/index", {"path": read_text, "state": read_text_if_any}),
        follow_model,
        role=ADMIN,
    ),
    Action(
        "drop_index",
        "Drop index",
        send("DELETE", f"{MODEL}/index/{{index}}"),
        follow_model,
        ask(
            "Drop the index on {path} of {name}/{version}?",
            "Searches by it take longer then. It is dropped in the background.",
            back=f"{ROOT}/indexes",
        ),
        role=ADMIN,
        is_dangerous=True,
    ),
    *build_acts(
        Suspendable(
            name="model",
            noun="model",
            read_target=_read_target,
            subject="{name}/{version}",
            page=ROOT,
            effects=(
                "It has {entities}.",
                "Timers stop. Transitions answer 409 until you resume. Runs that are under way end.",
            ),
            tell=_tell_entities,
            is_dangerous=True,
        )
    ),
)


ROUTES: Final[Routes] = (
    Page(name="models", path="/console/models", show=show_models, navigation=Navigation("Data", "Models", "m")),
    Page(name="new_model", path="/console/models/new", show=show_new_model),
    Page(name="model_schema", path=f"{ROOT}/schema", show=show_tab),
    Page(name="model_schema_download", path=f"{ROOT}/schema/download", show=show_schema_download, is_file=True),
    Page(
        name="model_workflows_download", path=f"{ROOT}/workflows/download", show=show_workflows_download, is_file=True
    ),
    Page(name="model_indexes", path=f"{ROOT}/indexes", show=show_tab),
    Page(name="model_settings", path=f"{ROOT}/settings", show=show_tab),
    build_part("counts", "/models/{name}/{version}/counts", show_counts),
    *ACTS,
)
