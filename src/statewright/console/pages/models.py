"""The list of models (docs/console.md#pages)."""

from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from statewright.console.calls import ApiCall, Reply, build_entity_call, build_ops_call
from statewright.console.process_languages import MODELS
from statewright.console.request import ConsoleRequest, Navigation, Page, Routes
from statewright.console.views.page import Crumb, View
from statewright.console.views.records import ModelRow
from statewright.operations.suspensions import SuspensionView

MAX_LISTED: Final = 500
MAX_SUSPENSIONS: Final = 1000


class ModelsView(Struct, frozen=True, kw_only=True):
    """The list, and what it was asked for."""

    rows: tuple[ModelRow, ...]
    filter: str
    total: int
    is_cut: bool


class NewModelView(Struct, frozen=True):
    """The form of a new model."""

    example: str = '{"customer": "Ada", "amount": 120.50}'


async def show_models(request: ConsoleRequest) -> View:
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


async def show_new_model(_request: ConsoleRequest) -> View:
    """The form of a new model."""
    return View(title="New model", data=NewModelView(), crumbs=(Crumb("Models", "/console/models"),))


def build_models_call() -> ApiCall:
    """The call that lists all models, the built-in ones included."""
    return build_entity_call("model", "", query={"includeBuiltin": True})


def list_models(reply: Reply) -> list[ModelRow]:
    """The models of an answer, by name and version."""
    return sorted(reply.pick_items(ModelRow), key=lambda row: (row.name, row.version))


ROUTES: Final[Routes] = (
    Page(name="models", path="/console/models", show=show_models, navigation=Navigation("Data", "Models", "m")),
    Page(name="new_model", path="/console/models/new", show=show_new_model),
)
