"""Checking, uploading and starting definitions: one call of the API each (docs/console.md#pages)."""

from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from statewright.console.calls import ApiCall, Reply, build_root_call
from statewright.console.pages.definitions import WarningView, build_crumbs, call_definition, list_warnings
from statewright.console.pages.instance_acts import read_object
from statewright.console.pages.instances import build_instance_path
from statewright.console.pages.process_graph import get_source
from statewright.console.process_languages import (
    FLOWS,
    LANGUAGES,
    PLAYBOOKS,
    STEPS,
    ProcessLanguage,
    find_language,
)
from statewright.console.request import Action, ConsoleRequest, Form, InvalidField, Page, Routes, build_problem
from statewright.console.views.page import DiffLine, Problem, View, compare_lines
from statewright.console.views.records import DefinitionCheck, DefinitionRecord, InstanceRecord
from statewright.jsonval.codec import encode

MAX_SOURCE_CHARS: Final = 10 * 1024 * 1024
MAX_COMPARED_CHARS: Final = 256 * 1024

EXAMPLES: Final = {
    "steps": """{
  "id": "greeting",
  "name": "Greeting",
  "steps": [
    {"id": "ask", "name": "Ask for a name", "type": "USER_TASK", "nextStep": "mail"},
    {"id": "mail", "name": "Send a mail", "type": "SERVICE_TASK", "jobType": "send-mail", "nextStep": "end"},
    {"id": "end", "name": "End", "type": "END"}
  ]
}""",
    "flow": """@flow orders
load → [charge | pack] → ship""",
    "playbook": """apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: greeting}
workflow:
- step: greet
  tool: {kind: noop}
  next:
    arcs:
    - step: thank
- step: thank
  tool: {kind: noop}""",
}


class NewDefinitionView(Struct, frozen=True, kw_only=True):
    """The form, and what a check has found."""

    language: ProcessLanguage
    languages: tuple[ProcessLanguage, ...]
    source: str
    id: str
    """Of flows: under which id the text is stored."""
    checked: "CheckView | None" = None

    @property
    def can_check(self) -> bool:
        """Whether the API checks definitions of the language without storing them."""
        return self.language is not STEPS


class CheckView(Struct, frozen=True, kw_only=True):
    """What the API says of a text. ``stored``: the version that it has become."""

    is_ok: bool
    findings: tuple[WarningView, ...]
    warnings: tuple[WarningView, ...]
    problem: Problem | None
    facts: str
    stored: int = 0
    stored_path: str = ""
    diff: tuple[DiffLine, ...] | None = None
    """What differs from the latest version; none where there is none, or it is too long."""
    compared: int = 0


async def show_new_definition(request: ConsoleRequest) -> View:
    """The form, filled with a definition that is to get another version, or with an example."""
    language = find_language(request.query.get("language", STEPS.code))
    definition, source = request.query.get("of"), EXAMPLES[language.code]
    if definition:
        found = await request.call_one(call_definition(language, definition, 0))
        source = get_source(language, found.require())
    known = definition if language is FLOWS else ""
    data = NewDefinitionView(language=language, languages=LANGUAGES, source=source, id=known)
    return View(title=f"Upload: {language.title}", data=data, crumbs=build_crumbs(language, definition))


def _read_source(form: Form) -> str:
    source = form.require("source").replace("\r\n", "\n")
    if len(source) > MAX_SOURCE_CHARS:
        raise InvalidField("source", "is longer than 10 MiB")
    return source


def _build_upload(form: Form) -> ApiCall:
    language, source = find_language(form.require("language")), _read_source(form)
    if language is STEPS:
        return language.call_definitions(method="POST", query={"warnings": True}, body=source.encode())
    return _build_text_call(language, form, source)


def _build_check(form: Form) -> ApiCall:
    language, source = find_language(form.require("language")), _read_source(form)
    if language is STEPS:
        raise InvalidField("language", "step definitions are checked when they are uploaded")
    return _build_text_call(language, form, source, "validate")


def _build_text_call(language: ProcessLanguage, form: Form, source: str, *more: str) -> ApiCall:
    if language is PLAYBOOKS:
        call = build_root_call("v1", "playbooks", *more, method="POST", body=source.encode())
        return replace(call, media_type="application/yaml")
    path = ("v1", "flows", "validate") if more else ("v1", "flows", "definitions")
    query = {"id": form.get("id") or None}
    return replace(build_root_call(*path, method="POST", query=query, body=source.encode()), media_type="text/plain")


async def _show_check(request: ConsoleRequest, form: Form, reply: Reply) -> View:
    return await _show_result(request, form, reply, is_stored=False)


async def _show_upload(request: ConsoleRequest, form: Form, reply: Reply) -> View | None:
    """The warnings of what was stored, or why it was refused; without either the page of the definition."""
    if reply.is_ok and not list_warnings(reply.pick(DefinitionRecord)):
        return None
    return await _show_result(request, form, reply, is_stored=True)


async def _show_result(request: ConsoleRequest, form: Form, reply: Reply, *, is_stored: bool) -> View:
    language, source = find_language(form.require("language")), _read_source(form)
    latest: Reply | None = None
    definition = language.get_id(reply.pick(DefinitionRecord)) or form.get("id")
    if reply.is_ok and not is_stored and definition:
        found = await request.call_one(call_definition(language, definition, 0))
        latest = found if found.is_ok else None
    return view_check(form, language, source, reply, latest, is_stored=is_stored)


def view_check(
    form: Form, language: ProcessLanguage, source: str, reply: Reply, latest: Reply | None, *, is_stored: bool
) -> View:
    """The form with what was found, from the answers of the API."""
    told = reply.pick(DefinitionCheck)
    findings = tuple(map(WarningView, told.findings))
    definition = language.get_id(told)
    old = get_source(language, latest) if latest is not None else None
    short = old is not None and max(len(old), len(source)) <= MAX_COMPARED_CHARS
    checked = CheckView(
        is_ok=reply.is_ok,
        findings=findings or (() if reply.is_ok else _split_reason(told)),
        warnings=list_warnings(told),
        problem=None if reply.is_ok else build_problem(reply),
        facts=_describe(told),
        stored=told.version if is_stored and reply.is_ok else 0,
        stored_path=language.build_path(definition) if definition else "",
        diff=compare_lines(old, source) if old is not None and short else None,
        compared=latest.pick(DefinitionRecord).version if latest is not None else 0,
    )
    data = NewDefinitionView(language=language, languages=LANGUAGES, source=source, id=form.get("id"), checked=checked)
    return View(
        title=f"Upload: {language.title}",
        data=data,
        crumbs=build_crumbs(language),
        template="pages/new_definition.html",
        status=200 if reply.is_ok else reply.status,
    )


def _split_reason(told: DefinitionCheck) -> tuple[WarningView, ...]:
    """The violations of JSON steps come in one text, a line each; those of a text have a place."""
    place = f"line {told.line}, column {told.column}" if told.line else ""
    lines = [each.strip() for each in told.reason.splitlines()]
    return tuple(WarningView(each, place) for each in lines if each and not each.endswith("validation errors:"))


def _describe(told: DefinitionCheck) -> str:
    parts = [] if told.nodes is None else [f"{told.nodes} nodes"]
    parts += [f"tasks: {', '.join(told.tasks)}"] if told.tasks else []
    parts += [f"steps: {', '.join(told.steps)}"] if told.steps else []
    parts += [] if told.is_new else ["the same as the stored version"]
    return "; ".join(parts)[:2000]


def _follow_upload(form: Form, reply: Reply) -> str:
    language = find_language(form.require("language"))
    told = reply.pick(DefinitionRecord)
    return f"{language.build_path(language.get_id(told))}?version={told.version}"


def _build_start(form: Form) -> ApiCall:
    language, version = find_language(form.require("language")), form.get("version", "0")
    if not version.isascii() or not version.isdigit() or len(version) > 9:
        raise InvalidField("version", "is the number of a version")
    values = read_object(form, "values")
    body = language.start(form.require("definition"), int(version), values, form.get("business_key"))
    return language.call_instances(method="POST", body=encode(body))


def _follow_start(_form: Form, reply: Reply) -> str:
    return build_instance_path(reply.pick(InstanceRecord).id)


ROUTES: Final[Routes] = (
    Page(name="new_definition", path="/console/definitions/new", show=show_new_definition),
    Action(
        name="check_definition",
        label="Check definition",
        build=_build_check,
        follow=_follow_upload,
        show=_show_check,
    ),
    Action(
        name="upload_definition",
        label="Upload definition",
        build=_build_upload,
        follow=_follow_upload,
        show=_show_upload,
    ),
    Action(name="start_instance", label="Start instance", build=_build_start, follow=_follow_start),
)
