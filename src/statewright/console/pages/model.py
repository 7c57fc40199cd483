"""One model: its workflows with counts, schema, indexes and settings (docs/console.md#pages)."""

from collections.abc import Callable
from typing import Final

from msgspec import Struct

from statewright.console.calls import ApiCall, Method, Reply, build_entity_call, build_path
from statewright.console.counts import ModelCounts
from statewright.console.pages.models import ModelRow, list_models
from statewright.console.problems import build_problem
from statewright.console.request import ConsoleRequest, Form, InvalidField
from statewright.console.route import Action, Page, Routes, build_part
from statewright.console.values import get_flag, get_object, get_objects, get_text
from statewright.console.views.page import Confirmation, Crumb, Problem, View
from statewright.jsonval.values import JsonObject

ROOT: Final = "/console/models/{name}/{version}"
MAX_VERSION: Final = 2**31
OK: Final = 200
NOT_FOUND: Final = 404


class WorkflowSummary(Struct, frozen=True, kw_only=True):
    """A workflow of the model."""

    name: str
    is_active: bool
    states: int
    transitions: int


class ModelView(Struct, frozen=True, kw_only=True):
    """The overview."""

    name: str
    version: int
    state: str
    workflows: tuple[WorkflowSummary, ...]
    workflows_problem: Problem | None = None


class CountsView(Struct, frozen=True, kw_only=True):
    """Entities by state."""

    name: str
    version: int
    counts: ModelCounts
    problem: Problem | None = None


def read_key(request: ConsoleRequest) -> tuple[str, int]:
    """Name and version of the model in the path. Raises ``InvalidField``."""
    text = request.params["version"]
    if not text.isascii() or not text.isdigit() or int(text) >= MAX_VERSION:
        raise InvalidField("version", "is a whole number")
    return request.params["name"], int(text)


def build_model_path(name: str, version: int, *more: str) -> str:
    """The path of a page of a model."""
    return build_path("console", "models", name, version, *more)


async def show_model(request: ConsoleRequest) -> View:
    """The overview of a model."""
    name, version = read_key(request)
    export, models = await request.call(
        build_entity_call("model", name, version, "workflow", "export"), build_entity_call("model", "")
    )
    return view_model(name, version, export, models.require())


def view_model(name: str, version: int, export: Reply, models: Reply) -> View:
    """The overview from the answers of the API. Raises ``CallFailed`` where there is no such model."""
    row = _find_row(models, name, version)
    if row is None:
        export.require()
    data = ModelView(
        name=name,
        version=version,
        state="" if row is None else row.state,
        workflows=tuple(_summarise(item) for item in get_objects(export.document, "workflows")),
        workflows_problem=None if export.status in {OK, NOT_FOUND} else build_problem(export),
    )
    return View(title=f"{name}/{version}", data=data, crumbs=(Crumb("Models", "/console/models"),))


async def show_counts(request: ConsoleRequest) -> View:
    """Entities of a model by state, as counted a moment ago."""
    name, version = read_key(request)
    counts = await request.counts.count(request.client, request.viewer.tenant, name, version)
    problem = None if counts.failed is None else build_problem(counts.failed, retry=request.path)
    return View(data=CountsView(name=name, version=version, counts=counts, problem=problem))


def _find_row(models: Reply, name: str, version: int) -> ModelRow | None:
    return next((each for each in list_models(models) if (each.name, each.version) == (name, version)), None)


def _summarise(item: JsonObject) -> WorkflowSummary:
    states = get_object(item, "states")
    transitions = [get_objects(state, "transitions") for state in states.values() if isinstance(state, dict)]
    return WorkflowSummary(
        name=get_text(item, "name"),
        is_active=get_flag(item, "active", default=True),
        states=len(states),
        transitions=sum(len(each) for each in transitions),
    )


# Acts on a model.


def _build_change(method: Method, *more: str) -> Callable[[Form], ApiCall]:
    def build(form: Form) -> ApiCall:
        return build_entity_call("model", *_read_form_key(form), *more, method=method)

    return build


def _read_form_key(form: Form) -> tuple[str, str]:
    version = form.require("version")
    if not version.isascii() or not version.isdigit():
        raise InvalidField("version", "is a whole number")
    return form.require("name"), version


def _follow_model(form: Form, _reply: Reply) -> str:
    name, version = _read_form_key(form)
    return build_model_path(name, int(version))


async def _confirm_unlock(_request: ConsoleRequest, form: Form) -> Confirmation:
    name, version = _read_form_key(form)
    return Confirmation(
        question=f"Unlock {name}/{version}?",
        details=("No entity can be created until it is locked again.",),
        back=build_model_path(name, int(version)),
    )


ROUTES: Final[Routes] = (
    Page(name="model", path=ROOT, show=show_model),
    build_part("counts", "/models/{name}/{version}/counts", show_counts),
    Action(name="lock_model", label="Lock model", build=_build_change("PUT", "lock"), follow=_follow_model),
    Action(
        name="unlock_model",
        label="Unlock model",
        build=_build_change("PUT", "unlock"),
        follow=_follow_model,
        confirm=_confirm_unlock,
    ),
)
