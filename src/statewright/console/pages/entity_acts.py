"""What can be done to an entity: one call of the API each, about the version that was on the screen
(docs/console.md#pages).
"""

from typing import Final

from msgspec import Struct

from statewright.console.acts import read_json
from statewright.console.calls import (
    MERGE_PATCH,
    ApiCall,
    Reply,
    build_entity_call,
    build_ops_call,
)
from statewright.console.pages.entity import ENTITY_ID, build_crumbs, build_entity_path
from statewright.console.pages.suspensions import MOVED, Suspendable, build_acts
from statewright.console.request import OPERATOR, Action, ConsoleRequest, Form, InvalidField, Routes
from statewright.console.views.entities import ChangedMember, list_differences
from statewright.console.views.page import Confirmation, Crumb, View, shorten_id
from statewright.console.views.records import Envelope
from statewright.jsonval.codec import encode
from statewright.jsonval.values import JsonObject
from statewright.operations.history import Difference as Comparison
from statewright.operations.history import WholeVersion

CHANGED: Final = 412
RUN_TIMEOUT_S: Final = 60.0
"""How long a run may take: its processors are waited for."""


class ChangedView(Struct, frozen=True, kw_only=True):
    """The entity is not as it was on the screen: what is different, and the form again."""

    id: str
    action: str
    label: str
    seen: str
    current: str
    states: tuple[str, str]
    differences: tuple[ChangedMember, ...]
    is_cut: bool
    fields: tuple[tuple[str, str], ...]
    document: str | None
    path: str


def read_id(form: Form) -> str:
    """The entity that a form is about. Raises ``InvalidField``."""
    entity_id = form.require("id")
    if ENTITY_ID.fullmatch(entity_id) is None:
        raise InvalidField("id", "is no id of an entity")
    return entity_id.lower()


def follow_entity(form: Form, _reply: Reply) -> str:
    """Back to the page of the entity."""
    return build_entity_path(read_id(form))


def _build_fire(form: Form) -> ApiCall:
    """An empty patch: the document stays, the transition fires."""
    return _build_patch(form, form.require("transition"))


def _build_loopback(form: Form) -> ApiCall:
    return _build_patch(form)


def _build_patch(form: Form, *transition: str) -> ApiCall:
    return build_entity_call(
        "entity",
        "JSON",
        read_id(form),
        *transition,
        method="PATCH",
        body=b"{}",
        media_type=MERGE_PATCH,
        headers={"If-Match": form.require("seen")},
        timeout_s=RUN_TIMEOUT_S,
    )


def _build_save(form: Form) -> ApiCall:
    """The document as it was typed, digits and all; with a transition it is fired."""
    transition = form.get("transition")
    return build_entity_call(
        "entity",
        "JSON",
        read_id(form),
        *([transition] if transition else []),
        method="PUT",
        body=read_json(form, "document"),
        headers={"If-Match": form.require("seen")},
        timeout_s=RUN_TIMEOUT_S,
    )


def _build_delete(form: Form) -> ApiCall:
    return build_entity_call("entity", read_id(form), method="DELETE")


def _build_restore(form: Form) -> ApiCall:
    body: JsonObject = {
        "version": form.require("version"),
        "reason": form.require("reason"),
        "ifMatch": form.require("seen"),
    }
    return build_ops_call(
        "entities", read_id(form), "restore", method="POST", body=encode(body), timeout_s=RUN_TIMEOUT_S
    )


def _name(form: Form) -> str:
    return f"{form.get('model', 'entity')} {shorten_id(read_id(form))}"


def _back(form: Form) -> str:
    return build_entity_path(read_id(form))


async def _confirm_fire(_request: ConsoleRequest, form: Form) -> Confirmation:
    target = form.get("target")
    details = [f"Its document stays as it is. {f'It leads to {target}.' if target else ''}"]
    return Confirmation(
        question=f"Fire {form.require('transition')} on {_name(form)}?", details=tuple(details), back=_back(form)
    )


async def _confirm_loopback(_request: ConsoleRequest, form: Form) -> Confirmation:
    return Confirmation(
        question=f"Run the automated transitions of {_name(form)}?",
        details=("Its document is saved again as it is: one version more, and the first transition that holds fires.",),
        back=_back(form),
    )


async def _confirm_delete(_request: ConsoleRequest, form: Form) -> Confirmation:
    details = ("Its history stays readable. No workflow runs, and nobody else's change is looked for.",)
    return Confirmation(question=f"Delete {_name(form)}?", details=details, back=_back(form))


async def _confirm_restore(request: ConsoleRequest, form: Form) -> Confirmation:
    version, seen = form.require("version"), form.require("seen")
    diff = await request.call_one(
        build_ops_call("entities", read_id(form), "diff", query={"from": seen, "to": version})
    )
    told = diff.read(Comparison)
    count = len(told.patch)
    return Confirmation(
        question=f"Restore the document of version {shorten_id(version)}?",
        details=(
            f"{count} {'place changes' if count == 1 else 'places change'}.",
            f"The state stays {told.state.older} unless the workflow moves it.",
            "This writes a new version; none is removed.",
        ),
        back=build_entity_path(read_id(form), "versions"),
        needs_reason=True,
    )


async def _tell_suspension(_request: ConsoleRequest, form: Form) -> tuple[str, tuple[str, ...]]:
    return _name(form), ("Its timers stop, and transitions answer 409 until you resume.",)


async def show_changed(request: ConsoleRequest, form: Form, reply: Reply) -> View | None:
    """What to do about an entity that was changed since it was looked at; ``None`` where that is not what failed."""
    if reply.status != CHANGED:
        return None
    entity_id, seen = read_id(form), form.require("seen")
    before, now = await request.call(
        build_ops_call("entities", entity_id, "versions", seen), build_entity_call("entity", entity_id)
    )
    was, entity = before.read_if_ok(WholeVersion), now.read(Envelope)
    rows, is_cut = list_differences(None if was is None else was.document, entity.data)
    current = entity.meta.transaction_id
    action = _LABELS[reply.call.method, bool(form.get("transition"))]
    fields = tuple(pair for pair in form.pairs if pair[0] not in ("seen", "document", "back"))
    data = ChangedView(
        id=entity_id,
        action=action[0],
        label=action[1],
        seen=seen,
        current=current,
        states=("" if was is None else was.state, entity.meta.state),
        differences=rows,
        is_cut=is_cut,
        fields=(*fields, ("seen", current)),
        document=form.get("document") or None,
        path=build_entity_path(entity_id),
    )
    name, _, version = form.get("model").rpartition("/")
    crumbs = build_crumbs(name, int(version)) if name and version.isdigit() else ()
    return View(
        title="Changed since you looked",
        data=data,
        status=CHANGED,
        crumbs=(*crumbs, Crumb(entity_id, data.path)) if crumbs else (),
        template="pages/entity_changed.html",
    )


_LABELS: Final = {
    ("PATCH", True): ("fire", "Fire it all the same"),
    ("PATCH", False): ("loopback", "Run them all the same"),
    ("PUT", False): ("save_entity", "Save over it"),
    ("PUT", True): ("save_entity", "Save over it"),
    ("POST", False): ("restore_version", "Restore all the same"),
}
"""The action that is offered again, by the call that was refused: its name and its label."""

ROUTES: Final[Routes] = (
    Action(
        name="fire", label="Fire", build=_build_fire, follow=follow_entity, confirm=_confirm_fire, show=show_changed
    ),
    Action(
        name="loopback",
        label="Run automated transitions",
        build=_build_loopback,
        follow=follow_entity,
        confirm=_confirm_loopback,
        show=show_changed,
    ),
    Action(name="save_entity", label="Save", build=_build_save, follow=follow_entity, show=show_changed),
    Action(
        name="delete_entity",
        label="Delete",
        build=_build_delete,
        follow=follow_entity,
        confirm=_confirm_delete,
        is_dangerous=True,
    ),
    Action(
        name="restore_version",
        label="Restore",
        build=_build_restore,
        follow=follow_entity,
        confirm=_confirm_restore,
        show=show_changed,
        role=OPERATOR,
    ),
    *build_acts(
        Suspendable(
            name="entity",
            read_target=lambda form: {"scope": "ENTITY", "id": read_id(form)},
            describe=_name,
            get_page=_back,
            tell=_tell_suspension,
            timers=MOVED,
        )
    ),
)
