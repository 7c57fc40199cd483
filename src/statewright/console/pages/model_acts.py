"""What can be done to a model: one call of the API each (docs/console.md#pages)."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

from msgspec import Struct

from statewright.console.acts import ask, lead_to, read_text, read_text_if_any, send
from statewright.console.calls import ApiCall, Reply, build_entity_call
from statewright.console.live import CONFIRMATION_PATIENT_S
from statewright.console.pages.model import CHANGE_LEVELS, ROOT, build_model_crumbs, build_model_path
from statewright.console.pages.suspensions import Suspendable, build_acts
from statewright.console.request import ADMIN, Action, Form, PageContext, Routes, build_problem, parse_version
from statewright.console.views.page import Problem, View, format_count
from statewright.console.views.records import Validation
from statewright.jsonval.values import JsonObject

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


ROUTES: Final[Routes] = (
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
