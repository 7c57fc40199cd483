"""Removing superseded versions of a model now (docs/retention.md)."""

from typing import Final

from msgspec import Struct

from statewright.console.calls import ApiCall, Reply, build_entity_call
from statewright.console.pages.admin import CRUMB, ROOT
from statewright.console.pages.model_acts import read_form_key
from statewright.console.request import ADMIN, Action, ConsoleRequest, Form, Routes
from statewright.console.views.page import Confirmation, Crumb, View
from statewright.operations.records import Record

RETENTION: Final = f"{ROOT}/retention"
PRUNE_TIMEOUT_S: Final = 30.0
"""The API removes versions for some seconds, and says whether that was all."""


class PrunedView(Struct, frozen=True, kw_only=True):
    """What was removed, and the form to go on with."""

    model: str
    older_than: str
    removed: int
    kept_from: str
    is_complete: bool
    fields: tuple[tuple[str, str], ...]


def _build_pruning(form: Form) -> ApiCall:
    name, version = read_form_key(form)
    query = {"olderThan": form.require("olderThan").strip()}
    return build_entity_call(
        "model", name, version, "history", "prune", method="POST", query=query, timeout_s=PRUNE_TIMEOUT_S
    )


async def _confirm_pruning(_request: ConsoleRequest, form: Form) -> Confirmation:
    name, version = read_form_key(form)
    return Confirmation(
        question=f"Remove versions of {name}/{version} that were superseded over {form.require('olderThan')} ago?",
        details=(
            "They cannot be brought back. Present versions and the audit trail stay.",
            "How many there are is not known before: the API has no trial of it.",
        ),
        back=RETENTION,
    )


class _Pruned(Record, frozen=True, kw_only=True):
    """What was removed of the history of a model."""

    removed: int = 0
    kept_from: str = ""
    complete: bool = False


async def _show_pruned(_request: ConsoleRequest, form: Form, reply: Reply) -> View | None:
    if not reply.is_ok:
        return None
    name, version = read_form_key(form)
    older_than = form.require("olderThan")
    told = reply.pick(_Pruned)
    data = PrunedView(
        model=f"{name}/{version}",
        older_than=older_than,
        removed=told.removed,
        kept_from=told.kept_from,
        is_complete=told.complete,
        fields=(("name", name), ("version", str(version)), ("olderThan", older_than)),
    )
    crumbs = (CRUMB, Crumb("Retention", RETENTION))
    return View(title="Versions removed", data=data, template="pages/pruned.html", crumbs=crumbs)


def _follow_retention(_form: Form, _reply: Reply) -> str:
    return RETENTION


ROUTES: Final[Routes] = (
    Action(
        name="prune_history",
        label="Prune now",
        build=_build_pruning,
        follow=_follow_retention,
        confirm=_confirm_pruning,
        show=_show_pruned,
        role=ADMIN,
        is_dangerous=True,
    ),
)
