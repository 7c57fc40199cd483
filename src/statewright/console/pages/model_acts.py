"""What can be done to a model: one call of the API each (docs/console.md#pages)."""

from collections.abc import Callable
from http import HTTPStatus
from typing import Final

from msgspec import Struct

from statewright.console.calls import ApiCall, Method, Reply, build_entity_call, get_flag, get_text
from statewright.console.live import CONFIRMATION_PATIENT_S
from statewright.console.pages.model import CHANGE_LEVELS, build_model_path, parse_version
from statewright.console.pages.suspensions import Suspendable, build_acts
from statewright.console.request import (
    ADMIN,
    Action,
    ConsoleRequest,
    Form,
    InvalidField,
    Routes,
    build_problem,
)
from statewright.console.views.page import Confirmation, Crumb, Problem, View, format_count
from statewright.jsonval.codec import MalformedJson, decode, encode
from statewright.jsonval.values import JsonObject

MAX_DOCUMENT_CHARS: Final = 10 * 1024 * 1024


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


def read_json(form: Form, name: str) -> bytes:
    """A field that is a JSON document, as it was typed. Raises ``InvalidField``."""
    text = form.require(name)
    if len(text) > MAX_DOCUMENT_CHARS:
        raise InvalidField(name, "is longer than 10 MiB")
    raw = text.encode()
    try:
        decode(raw)
    except MalformedJson as malformed:
        raise InvalidField(name, f"is no JSON: {malformed}") from malformed
    return raw


def follow_model(form: Form, _reply: Reply) -> str:
    """Back to the page of the model that the form is on."""
    tab = form.get_choice("tab", ("", "schema", "indexes", "settings"))
    return build_model_path(*read_form_key(form), *([tab] if tab else []))


def _build_change(method: Method, *more: str) -> Callable[[Form], ApiCall]:
    def build(form: Form) -> ApiCall:
        return build_entity_call("model", *read_form_key(form), *more, method=method)

    return build


def _build_change_level(form: Form) -> ApiCall:
    level = form.get_choice("level", CHANGE_LEVELS)
    return build_entity_call("model", *read_form_key(form), "changeLevel", level, method="POST")


def _build_unique_keys(form: Form) -> ApiCall:
    body = read_json(form, "keys")
    return build_entity_call("model", *read_form_key(form), "unique-keys", method="PUT", body=body)


def _build_sample_import(form: Form) -> ApiCall:
    body = read_json(form, "sample")
    return build_entity_call("model", "import", "JSON", "SAMPLE_DATA", *read_form_key(form), method="POST", body=body)


def _build_validation(form: Form) -> ApiCall:
    body = read_json(form, "document")
    return build_entity_call("model", "validate", *read_form_key(form), method="POST", body=body)


def _build_index(form: Form) -> ApiCall:
    wanted = {"path": form.require("path")} | ({"state": form.get("state")} if form.get("state") else {})
    return build_entity_call("model", *read_form_key(form), "index", method="POST", body=encode(dict(wanted)))


def _build_index_drop(form: Form) -> ApiCall:
    return build_entity_call("model", *read_form_key(form), "index", form.require("index"), method="DELETE")


async def _show_validation(_request: ConsoleRequest, form: Form, reply: Reply) -> View | None:
    if reply.status == HTTPStatus.NOT_FOUND:
        return None
    name, version = read_form_key(form)
    message = get_text(reply.document, "message")
    is_valid = reply.is_ok and get_flag(reply.document, "success")
    data = ValidationView(
        name=name,
        version=version,
        document=form.get("document"),
        is_valid=is_valid,
        messages=() if is_valid else tuple(message.removeprefix("Validation failed: ").split("; ")),
        problem=None if reply.is_ok else build_problem(reply),
    )
    crumbs = (Crumb("Models", "/console/models"), Crumb(f"{name}/{version}", build_model_path(name, version)))
    return View(title="Validate a document", data=data, crumbs=crumbs)


async def _count_in_words(request: ConsoleRequest, name: str, version: int) -> str:
    """The entities of a model for a confirmation, with the age of the number."""
    counts = await request.counts.count(
        request.client, request.viewer.tenant, name, version, patience_s=CONFIRMATION_PATIENT_S
    )
    if counts.failed is not None or counts.is_counting:
        return "its entities (too many to count quickly)"
    age = "now" if counts.age_s < 1 else f"{counts.age_s:.0f} s ago"
    return f"{format_count(counts.total)} entities (counted {age})"


async def _confirm_unlock(_request: ConsoleRequest, form: Form) -> Confirmation:
    name, version = read_form_key(form)
    return Confirmation(
        question=f"Unlock {name}/{version}?",
        details=("No entity can be created until it is locked again. It must have no entity now.",),
        back=build_model_path(name, version, "settings"),
    )


async def _confirm_delete(request: ConsoleRequest, form: Form) -> Confirmation:
    name, version = read_form_key(form)
    return Confirmation(
        question=f"Delete {name}/{version} for good?",
        details=(
            f"It has {await _count_in_words(request, name, version)}.",
            "Its schema, change level and unique keys are lost. Its workflows are kept under its name and version.",
        ),
        back=build_model_path(name, version, "settings"),
    )


async def _tell_suspension(request: ConsoleRequest, form: Form) -> tuple[str, tuple[str, ...]]:
    name, version = read_form_key(form)
    return f"{name}/{version}", (
        f"It has {await _count_in_words(request, name, version)}.",
        "Timers stop. Transitions answer 409 until you resume. Runs that are under way end.",
    )


def _read_target(form: Form) -> JsonObject:
    name, version = read_form_key(form)
    return {"scope": "MODEL", "model": {"name": name, "version": version}}


async def _confirm_index_drop(_request: ConsoleRequest, form: Form) -> Confirmation:
    name, version = read_form_key(form)
    return Confirmation(
        question=f"Drop the index on {form.get('path')} of {name}/{version}?",
        details=("Searches by it take longer then. It is dropped in the background.",),
        back=build_model_path(name, version, "indexes"),
    )


def _follow_models(_form: Form, _reply: Reply) -> str:
    return "/console/models"


ROUTES: Final[Routes] = (
    Action(name="lock_model", label="Lock model", build=_build_change("PUT", "lock"), follow=follow_model),
    Action(
        name="unlock_model",
        label="Unlock model",
        build=_build_change("PUT", "unlock"),
        follow=follow_model,
        confirm=_confirm_unlock,
    ),
    Action(
        name="delete_model",
        label="Delete model",
        build=_build_change("DELETE"),
        follow=_follow_models,
        confirm=_confirm_delete,
        is_dangerous=True,
    ),
    Action(name="set_change_level", label="Set change level", build=_build_change_level, follow=follow_model),
    Action(name="set_unique_keys", label="Set unique keys", build=_build_unique_keys, follow=follow_model),
    Action(name="learn_sample", label="Learn from a sample", build=_build_sample_import, follow=follow_model),
    Action(
        name="validate_document",
        label="Validate a document",
        build=_build_validation,
        follow=follow_model,
        show=_show_validation,
    ),
    Action(name="declare_index", label="Declare index", build=_build_index, follow=follow_model, role=ADMIN),
    Action(
        name="drop_index",
        label="Drop index",
        build=_build_index_drop,
        follow=follow_model,
        confirm=_confirm_index_drop,
        role=ADMIN,
        is_dangerous=True,
    ),
    *build_acts(
        Suspendable(
            name="model",
            noun="model",
            read_target=_read_target,
            describe=lambda form: "{}/{}".format(*read_form_key(form)),
            get_page=lambda form: build_model_path(*read_form_key(form)),
            tell=_tell_suspension,
            is_dangerous=True,
        )
    ),
)
