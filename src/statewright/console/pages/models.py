"""The list of models (docs/console.md#pages)."""

from typing import Final

from msgspec import Struct

from statewright.console.calls import Reply, build_entity_call
from statewright.console.request import ConsoleRequest
from statewright.console.route import Navigation, Page, Routes
from statewright.console.values import get_int, get_text
from statewright.console.views.page import View

MAX_LISTED: Final = 500


class ModelRow(Struct, frozen=True, kw_only=True):
    """A model in the list."""

    name: str
    version: int
    state: str
    updated: str


class ModelsView(Struct, frozen=True, kw_only=True):
    """The list, and what it was asked for."""

    rows: tuple[ModelRow, ...]
    filter: str
    total: int
    is_cut: bool


async def show_models(request: ConsoleRequest) -> View:
    """Models by name, those that contain a text."""
    [reply] = await request.call(build_entity_call("model", ""))
    return view_models(reply.require(), request.query.get("filter"))


def view_models(reply: Reply, wanted: str) -> View:
    """The list from the answer of the API."""
    rows = list_models(reply)
    matching = tuple(row for row in rows if wanted.lower() in row.name.lower())
    data = ModelsView(rows=matching[:MAX_LISTED], filter=wanted, total=len(rows), is_cut=len(matching) > MAX_LISTED)
    return View(title="Models", data=data)


def list_models(reply: Reply) -> list[ModelRow]:
    """The models of an answer, by name and version."""
    rows = [
        ModelRow(
            name=get_text(item, "modelName"),
            version=get_int(item, "modelVersion"),
            state=get_text(item, "currentState"),
            updated=get_text(item, "modelUpdateDate"),
        )
        for item in reply.items
    ]
    return sorted(rows, key=lambda row: (row.name, row.version))


ROUTES: Final[Routes] = (
    Page(name="models", path="/console/models", show=show_models, navigation=Navigation("Data", "Models", "m")),
)
