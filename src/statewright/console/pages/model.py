"""One model: its schema, indexes and settings, and the counts of its entities (docs/console.md#pages)."""

from typing import Final

from msgspec import Struct

from statewright.console.calls import (
    ApiCall,
    CallFailed,
    Reply,
    build_entity_call,
    build_ops_call,
    build_path,
)
from statewright.console.live import ModelCounts
from statewright.console.pages.models import build_models_call, list_models
from statewright.console.request import ConsoleRequest, InvalidField, Page, Routes, build_part, build_problem
from statewright.console.views.entities import Schema, build_schema
from statewright.console.views.page import Crumb, Download, Problem, View
from statewright.console.views.records import ModelRow
from statewright.jsonval.values import JsonObject
from statewright.operations.records import Record
from statewright.operations.suspensions import SuspensionView

ROOT: Final = "/console/models/{name}/{version}"
MAX_VERSION: Final = 2**31
NOT_FOUND: Final = 404
CONVERTERS: Final = ("SIMPLE_VIEW", "JSON_SCHEMA")
CHANGE_LEVELS: Final = ("ARRAY_LENGTH", "ARRAY_ELEMENTS", "TYPE", "STRUCTURAL")


class ModelHead(Struct, frozen=True, kw_only=True):
    """What stands above every page of a model."""

    name: str
    version: int
    state: str
    suspensions: tuple[SuspensionView, ...] = ()

    @property
    def is_locked(self) -> bool:
        """Whether entities can be created."""
        return self.state == "LOCKED"

    @property
    def is_suspended(self) -> bool:
        """Whether all of its entities stand still."""
        return any(each.scope == "MODEL" for each in self.suspensions)

    @property
    def key(self) -> tuple[tuple[str, str], ...]:
        """The fields of every form about the model."""
        return ("name", self.name), ("version", str(self.version))


class SchemaView(Struct, frozen=True, kw_only=True):
    """The fields of a model. ``indexed`` are the paths that have an index."""

    head: ModelHead
    schema: Schema
    indexed: frozenset[str]


class IndexProgress(Record, frozen=True, kw_only=True):
    """How far a build has come."""

    phase: str = ""
    percent: int | None = None


class IndexRow(Record, frozen=True, kw_only=True):
    """A declared index."""

    id: str = ""
    path: str = ""
    type: str = ""
    state: str = ""
    status: str = ""
    progress: IndexProgress | None = None
    failure: str = ""


class IndexesView(Struct, frozen=True, kw_only=True):
    """The declared indexes, and the paths that could have one."""

    head: ModelHead
    rows: tuple[IndexRow, ...]
    paths: tuple[str, ...]
    field: str


class SettingsView(Struct, frozen=True, kw_only=True):
    """What can be set of a model."""

    head: ModelHead
    schema: Schema
    levels: tuple[str, ...] = CHANGE_LEVELS


class CountsView(Struct, frozen=True, kw_only=True):
    """Entities by state."""

    name: str
    version: int
    counts: ModelCounts
    problem: Problem | None = None


def parse_version(text: str) -> int:
    """The version of a model. Raises ``InvalidField``."""
    if not text.isascii() or not text.isdigit() or int(text) >= MAX_VERSION:
        raise InvalidField("version", "is a whole number")
    return int(text)


def read_key(request: ConsoleRequest) -> tuple[str, int]:
    """Name and version of the model in the path. Raises ``InvalidField``."""
    return request.params["name"], parse_version(request.params["version"])


def build_model_path(name: str, version: int, *more: str) -> str:
    """The path of a page of a model."""
    return build_path("console", "models", name, version, *more)


def list_head_calls(request: ConsoleRequest, name: str) -> tuple[ApiCall, ...]:
    """What is asked for the head of a page of a model."""
    calls = [build_models_call()]
    if "suspensions" in request.viewer.features:
        calls.append(build_ops_call("suspensions", query={"model": name, "active": True}))
    return tuple(calls)


def view_head(name: str, version: int, replies: tuple[Reply, ...]) -> ModelHead:
    """The head from the answers. Raises ``CallFailed`` where there is no such model."""
    models, *suspensions = replies
    row = _find_row(models.require(), name, version)
    if row is None:
        raise CallFailed(build_missing_model(models, name, version))
    listed = suspensions[0].read_items(SuspensionView) if suspensions else ()
    return ModelHead(
        name=name,
        version=version,
        state=row.state,
        suspensions=tuple(each for each in listed if each.model is not None and each.model.version == version),
    )


def build_missing_model(models: Reply, name: str, version: int) -> Reply:
    """The reply of the API to a question about a model that does not exist, as the list of models tells it."""
    problem: JsonObject = {
        "detail": f"There is no model {name}/{version}, or it is of another tenant.",
        "properties": {"errorCode": "MODEL_NOT_FOUND"},
    }
    return Reply(call=models.call, status=NOT_FOUND, value=problem)


async def show_schema(request: ConsoleRequest) -> View:
    """The fields of a model."""
    name, version = read_key(request)
    export, indexes, *head = await request.call(
        build_entity_call("model", "export", "SIMPLE_VIEW", name, version),
        build_entity_call("model", name, version, "index"),
        *list_head_calls(request, name),
    )
    known = view_head(name, version, tuple(head))
    indexed = frozenset(each.path for each in indexes.pick_items(IndexRow))
    return build_model_view(
        known, SchemaView(head=known, schema=build_schema(export.require().document), indexed=indexed)
    )


async def show_schema_download(request: ConsoleRequest) -> View:
    """The export of a model as a file."""
    name, version = read_key(request)
    converter = request.query.get_choice("converter", CONVERTERS)
    reply = await request.call_one(build_entity_call("model", "export", converter, name, version))
    return View(download=Download(f"model-{version}-{converter.lower()}.json", reply.require().body))


async def show_workflows_download(request: ConsoleRequest) -> View:
    """The workflows of a model as a file."""
    name, version = read_key(request)
    reply = await request.call_one(build_entity_call("model", name, version, "workflow", "export"))
    return View(download=Download(f"workflows-{version}.json", reply.require().body))


async def show_indexes(request: ConsoleRequest) -> View:
    """The declared indexes of a model, with the progress of their builds."""
    name, version = read_key(request)
    export, indexes, *head = await request.call(
        build_entity_call("model", "export", "SIMPLE_VIEW", name, version),
        build_entity_call("model", name, version, "index"),
        *list_head_calls(request, name),
    )
    known = view_head(name, version, tuple(head))
    data = IndexesView(
        head=known,
        rows=indexes.require().pick_items(IndexRow),
        paths=build_schema(export.document).paths,
        field=request.query.get("path"),
    )
    return build_model_view(known, data)


async def show_settings(request: ConsoleRequest) -> View:
    """Lock, change level and unique keys."""
    name, version = read_key(request)
    export, *head = await request.call(
        build_entity_call("model", "export", "SIMPLE_VIEW", name, version), *list_head_calls(request, name)
    )
    known = view_head(name, version, tuple(head))
    return build_model_view(known, SettingsView(head=known, schema=build_schema(export.require().document)))


async def show_counts(request: ConsoleRequest) -> View:
    """Entities of a model by state, as counted a moment ago."""
    name, version = read_key(request)
    counts = await request.counts.count(request.client, request.viewer.tenant, name, version)
    counts.require_model()
    problem = None if counts.failed is None else build_problem(counts.failed, retry=request.path)
    return View(data=CountsView(name=name, version=version, counts=counts, problem=problem))


def build_model_view(head: ModelHead, data: Struct) -> View:
    """A page of a model, with the way to it."""
    return View(title=f"{head.name}/{head.version}", data=data, crumbs=(Crumb("Models", "/console/models"),))


def _find_row(models: Reply, name: str, version: int) -> ModelRow | None:
    return next((each for each in list_models(models) if (each.name, each.version) == (name, version)), None)


ROUTES: Final[Routes] = (
    Page(name="model_schema", path=f"{ROOT}/schema", show=show_schema),
    Page(name="model_schema_download", path=f"{ROOT}/schema/download", show=show_schema_download, is_file=True),
    Page(
        name="model_workflows_download", path=f"{ROOT}/workflows/download", show=show_workflows_download, is_file=True
    ),
    Page(name="model_indexes", path=f"{ROOT}/indexes", show=show_indexes),
    Page(name="model_settings", path=f"{ROOT}/settings", show=show_settings),
    build_part("counts", "/models/{name}/{version}/counts", show_counts),
)
