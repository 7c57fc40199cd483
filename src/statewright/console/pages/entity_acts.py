"""What can be done to an entity: one call of the API each, about the version that was on the screen
(docs/console.md#pages).
"""

from typing import Final

from statewright.console.acts import ask, lead_to, read_json, send
from statewright.console.calls import (
    JSON,
    MERGE_PATCH,
    ApiCall,
    Method,
    Reply,
    build_entity_call,
    build_ops_call,
    build_path,
)
from statewright.console.pages.entity import ENTITY_ID, EntityPage, build_entity_path
from statewright.console.pages.model import build_model_crumbs
from statewright.console.pages.suspensions import MOVED, Suspendable, build_acts
from statewright.console.request import OPERATOR, Action, Form, InvalidField, PageContext, Routes
from statewright.console.views.entities import ChangedMember, list_differences
from statewright.console.views.page import Confirmation, Crumb, View, shorten_id
from statewright.console.views.records import Envelope
from statewright.jsonval.codec import encode
from statewright.operations.history import Difference as Comparison
from statewright.operations.history import WholeVersion

CHANGED: Final = 412
EMPTY_PATCH: Final = b"{}"
"""The document stays as it is."""
RUN_TIMEOUT_S: Final = 60.0
"""How long a run may take: its processors are waited for."""


class ChangedView(EntityPage, frozen=True, kw_only=True):
    """The entity is not as it was on the screen: what is different, and the form again."""

    action: str
    label: str
    states: tuple[str, str]
    differences: tuple[ChangedMember, ...]
    is_cut: bool
    fields: tuple[tuple[str, str], ...]
    document: str | None


def read_id(form: Form) -> str:
    """The entity that a form is about. Raises ``InvalidField``."""
    entity_id = form.require("id")
    if ENTITY_ID.fullmatch(entity_id) is None:
        raise InvalidField("id", "is no id of an entity")
    return entity_id.lower()


def _back(form: Form) -> str:
    return build_entity_path(read_id(form))


def _name(form: Form) -> str:
    return f"{form.get('model', 'entity')} {shorten_id(read_id(form))}"


def _build_write(form: Form, method: Method, body: bytes, transition: str = "") -> ApiCall:
    """A document or a patch of it; with a transition it is fired."""
    return build_entity_call(
        "entity",
        "JSON",
        read_id(form),
        *([transition] if transition else []),
        method=method,
        body=body,
        media_type=MERGE_PATCH if method == "PATCH" else JSON,
        headers={"If-Match": form.require("seen")},
        timeout_s=RUN_TIMEOUT_S,
    )


def _write_restore(form: Form) -> bytes:
    names = {"version": "version", "reason": "reason", "ifMatch": "seen"}
    return encode({member: form.require(name) for member, name in names.items()})


def _tell_target(form: Form) -> str:
    target = form.get("target")
    return f"Its document stays as it is. {f'It leads to {target}.' if target else ''}"


async def _confirm_restore(request: PageContext, form: Form) -> Confirmation:
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


async def show_changed(request: PageContext, form: Form, reply: Reply) -> View | None:
    """What to do about an entity that was changed since it was looked at; ``None`` where that is not what failed."""
    if reply.status != CHANGED:
        return None
    entity_id, seen = read_id(form), form.require("seen")
    before, now = await request.call(
        build_ops_call("entities", entity_id, "versions", seen), build_entity_call("entity", entity_id)
    )
    was, entity = before.read_if_ok(WholeVersion), now.read(Envelope)
    rows, is_cut = list_differences(None if was is None else was.document, entity.data)
    action, label = _LABELS[reply.call.method, bool(form.get("transition"))]
    fields = tuple(pair for pair in form.pairs if pair[0] not in ("seen", "document", "back"))
    data = ChangedView(
        id=entity_id,
        action=action,
        label=label,
        states=("" if was is None else was.state, entity.meta.state),
        differences=rows,
        is_cut=is_cut,
        fields=(*fields, ("seen", entity.meta.transaction_id)),
        document=form.get("document") or None,
    )
    name, _, version = form.get("model").rpartition("/")
    crumbs = build_model_crumbs(name, int(version)) if name and version.isdigit() else ()
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
        "fire",
        "Fire",
        lambda form: _build_write(form, "PATCH", EMPTY_PATCH, form.require("transition")),
        lead_to(_back),
        ask(lambda form: f"Fire {form.require('transition')} on {_name(form)}?", _tell_target, back=_back),
        show=show_changed,
    ),
    Action(
        "loopback",
        "Run automated transitions",
        lambda form: _build_write(form, "PATCH", EMPTY_PATCH),
        lead_to(_back),
        ask(
            lambda form: f"Run the automated transitions of {_name(form)}?",
            "Its document is saved again as it is: one version more, and the first transition that holds fires.",
            back=_back,
        ),
        show=show_changed,
    ),
    Action(
        "save_entity",
        "Save",
        lambda form: _build_write(form, "PUT", read_json(form, "document"), form.get("transition")),
        lead_to(_back),
        show=show_changed,
    ),
    Action(
        "delete_entity",
        "Delete",
        lambda form: build_entity_call("entity", read_id(form), method="DELETE"),
        lead_to(_back),
        ask(
            lambda form: f"Delete {_name(form)}?",
            "Its history stays readable. No workflow runs, and nobody else's change is looked for.",
            back=_back,
        ),
        is_dangerous=True,
    ),
    Action(
        "restore_version",
        "Restore",
        send(
            "POST",
            lambda form: build_path("ops", "v1", "entities", read_id(form), "restore"),
            _write_restore,
            timeout_s=RUN_TIMEOUT_S,
        ),
        lead_to(_back),
        _confirm_restore,
        show=show_changed,
        role=OPERATOR,
    ),
    *build_acts(
        Suspendable(
            name="entity",
            read_target=lambda form: {"scope": "ENTITY", "id": read_id(form)},
            subject=_name,
            page=_back,
            effects=("Its timers stop, and transitions answer 409 until you resume.",),
            timers=MOVED,
        )
    ),
)
