"""Checking, uploading and starting definitions: one call of the API each (docs/console.md#pages)."""

from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from statewright.console import process_languages
from statewright.console.acts import read_object
from statewright.console.calls import ApiCall, Parameters, Reply, build_root_call
from statewright.console.pages.definitions import build_crumbs, compare_texts, get_source, list_warnings
from statewright.console.pages.instances import build_instance_path
from statewright.console.process_languages import STEPS, ProcessLanguage, find_language
from statewright.console.request import Action, Form, InvalidField, Page, PageContext, Routes, build_problem
from statewright.console.views.page import DiffLine, Problem, View
from statewright.console.views.records import DefinitionCheck, DefinitionRecord, DefinitionWarning, InstanceRecord
from statewright.jsonval.codec import encode

MAX_SOURCE_CHARS: Final = 10 * 1024 * 1024


class NewDefinitionView(Struct, frozen=True, kw_only=True):
    """The form, and what a check has found."""

    language: ProcessLanguage
    source: str
    id: str
    """Of flows: under which id the text is stored."""
    checked: "CheckView | None" = None

    @property
    def languages(self) -> tuple[ProcessLanguage, ...]:
        """Those that there are."""
        return process_languages.LANGUAGES


class CheckView(Struct, frozen=True, kw_only=True):
    """What the API says of a text. ``stored``: the version that it has become."""

    is_ok: bool
    findings: tuple[DefinitionWarning, ...]
    warnings: tuple[DefinitionWarning, ...]
    problem: Problem | None
    facts: str
    stored: int = 0
    stored_path: str = ""
    diff: tuple[DiffLine, ...] | None = None
    """What differs from the latest version; none where there is none, or it is too long."""
    compared: int = 0


async def show_new_definition(request: PageContext) -> View:
    """The form, filled with a definition that is to get another version, or with an example."""
    language = find_language(request.query.get("language", STEPS.code))
    definition, source = request.query.get("of"), language.example
    if definition:
        found = await request.call_one(language.call_definitions(definition))
        source = get_source(language, found.require())
    data = NewDefinitionView(language=language, source=source, id=definition if language.takes_id else "")
    return View(title=f"Upload: {language.title}", data=data, crumbs=build_crumbs(language, definition))


def _read_source(form: Form) -> str:
    source = form.require("source").replace("\r\n", "\n")
    if len(source) > MAX_SOURCE_CHARS:
        raise InvalidField("source", "is longer than 10 MiB")
    return source


def _build_upload(form: Form) -> ApiCall:
    language = find_language(form.require("language"))
    return _build_call(language, form, language.nouns.definitions_path, language.upload_query)


def _build_check(form: Form) -> ApiCall:
    language = find_language(form.require("language"))
    if not language.can_check:
        raise InvalidField("language", "its definitions are checked when they are uploaded")
    return _build_call(language, form, language.nouns.validate_path, {})


def _build_call(language: ProcessLanguage, form: Form, path: str, query: Parameters) -> ApiCall:
    asked = {"id": form.get("id") or None} if language.takes_id else query
    body = _read_source(form).encode()
    call = build_root_call(*path.strip("/").split("/"), method="POST", query=asked, body=body)
    return replace(call, media_type=language.media_type)


async def _show_check(request: PageContext, form: Form, reply: Reply) -> View:
    language, definition = find_language(form.require("language")), reply.pick(DefinitionRecord).key or form.get("id")
    latest: Reply | None = None
    if reply.is_ok and definition:
        latest = await request.call_one(language.call_definitions(definition))
    return view_check(form, reply, latest, is_stored=False)


async def _show_upload(_request: PageContext, form: Form, reply: Reply) -> View | None:
    """The warnings of what was stored, or why it was refused; without either the page of the definition."""
    if reply.is_ok and not list_warnings(reply.pick(DefinitionRecord)):
        return None
    return view_check(form, reply, None, is_stored=True)


def view_check(form: Form, reply: Reply, latest: Reply | None, *, is_stored: bool) -> View:
    """The form with what was found, from the answers of the API."""
    language, source, told = find_language(form.require("language")), _read_source(form), reply.pick(DefinitionCheck)
    findings = tuple(DefinitionWarning(message=each) for each in told.findings)
    stored = latest if latest is not None and latest.is_ok else None
    checked = CheckView(
        is_ok=reply.is_ok,
        findings=findings or (() if reply.is_ok else _split_reason(told)),
        warnings=list_warnings(told),
        problem=None if reply.is_ok else build_problem(reply),
        facts=_describe(told),
        stored=told.version if is_stored and reply.is_ok else 0,
        stored_path=language.build_path(told.key) if told.key else "",
        diff=None if stored is None else compare_texts(get_source(language, stored), source),
        compared=0 if stored is None else stored.pick(DefinitionRecord).version,
    )
    return View(
        title=f"Upload: {language.title}",
        data=NewDefinitionView(language=language, source=source, id=form.get("id"), checked=checked),
        crumbs=build_crumbs(language),
        template="pages/new_definition.html",
        status=200 if reply.is_ok else reply.status,
    )


def _split_reason(told: DefinitionCheck) -> tuple[DefinitionWarning, ...]:
    """The violations of JSON steps come in one text, a line each; those of a text have a place."""
    lines = [each.strip() for each in told.reason.splitlines()]
    return tuple(
        DefinitionWarning(message=each, line=told.line, column=told.column)
        for each in lines
        if each and not each.endswith("validation errors:")
    )


def _describe(told: DefinitionCheck) -> str:
    parts = [] if told.nodes is None else [f"{told.nodes} nodes"]
    parts += [f"tasks: {', '.join(told.tasks)}"] if told.tasks else []
    parts += [f"steps: {', '.join(told.steps)}"] if told.steps else []
    parts += [] if told.is_new else ["the same as the stored version"]
    return "; ".join(parts)[:2000]


def _follow_upload(form: Form, reply: Reply) -> str:
    told = reply.pick(DefinitionRecord)
    return f"{find_language(form.require('language')).build_path(told.key)}?version={told.version}"


def _build_start(form: Form) -> ApiCall:
    language, values = find_language(form.require("language")), read_object(form, "values")
    body = language.start(form.require("definition"), form.get_number("version"), values, form.get("business_key"))
    return language.call_instances(method="POST", body=encode(body))


def _follow_start(_form: Form, reply: Reply) -> str:
    return build_instance_path(reply.pick(InstanceRecord).id)


ROUTES: Final[Routes] = (
    Page(name="new_definition", path="/console/definitions/new", show=show_new_definition),
    Action("check_definition", "Check definition", _build_check, _follow_upload, show=_show_check),
    Action("upload_definition", "Upload definition", _build_upload, _follow_upload, show=_show_upload),
    Action("start_instance", "Start instance", _build_start, _follow_start),
)
