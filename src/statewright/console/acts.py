"""Acts as rows: the call, the question before it and the page after it, as texts with fields of the form in braces
(docs/console.md#how-to-add-a-page).

Stopping something for a while, and letting it go on: one pair of acts, whatever it is that stands still
(docs/reference/operations.md#suspensions).

``ActionForms`` carries acts out: a confirmation where one is wanted, then one call of the API, then the page that shows
its effect.
"""

import re
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from secrets import token_hex
from typing import Final, Literal, TypeAlias
from urllib.parse import quote

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from statewright.console.calls import CALL_TIMEOUT_S, ApiCall, CallFailed, Method, Reply
from statewright.console.frame import DONE, PageFrame
from statewright.console.request import OPERATOR, Action, Form, InvalidField, PageContext, build_problem, parse_version
from statewright.console.response import ConsoleResponse, build_redirect
from statewright.console.views.page import Choice, Confirmation, Problem, View
from statewright.jsonval.codec import MalformedJson, decode, encode
from statewright.jsonval.values import JsonObject, JsonValue
from statewright.operations.idempotency import read_key

MAX_DOCUMENT_CHARS: Final = 10 * 1024 * 1024

Words: TypeAlias = str | Callable[[Form], str]
"""A text, ``{name}`` in it for a field of the form, or what reads it from the form. May raise ``InvalidField``."""
Read: TypeAlias = Callable[[Form, str], "JsonValue | UnsetType"]
"""Reads a field of a form. Raises ``InvalidField``."""
Body: TypeAlias = "Mapping[str, Read] | Callable[[Form], bytes] | str | None"
"""Members, each read from the field of its name; a function; the name of a field whose JSON is sent as it was typed."""
Tell: TypeAlias = Callable[[PageContext, Form], Awaitable[Mapping[str, str]]]
"""Asks the API for what a question names and is no field."""

_FIELD: Final = re.compile(r"\{(\w+)\}")


def fill_path(path: Words, form: Form) -> str:
    """A path with the fields that it names, each one encoded segment."""
    return _FIELD.sub(lambda name: _read_segment(name[1], form), path) if isinstance(path, str) else path(form)


def _read_segment(name: str, form: Form) -> str:
    text = form.require(name)
    return str(parse_version(text)) if name == "version" else quote(text, safe="")


def send(
    method: Method, path: Words, body: Body = None, *, timeout_s: float = CALL_TIMEOUT_S
) -> Callable[[Form], ApiCall]:
    """Builds the call of a form. Paths that begin with ``/ops`` or ``/v1`` are beside the context path."""

    def build(form: Form) -> ApiCall:
        filled = fill_path(path, form)
        return ApiCall(
            method=method,
            path=filled,
            is_below_context=not filled.startswith(("/ops/", "/v1/")),
            body=_build_body(form, body),
            timeout_s=timeout_s,
        )

    return build


def lead_to(path: Words) -> Callable[[Form, Reply], str]:
    """Leads to the same page, whatever the answer is."""
    return lambda form, _reply: fill_path(path, form)


def ask(
    question: Words,
    *details: Words,
    back: Words,
    tell: Tell | None = None,
    needs_reason: bool = False,
    choices: tuple[Choice, ...] = (),
) -> Callable[[PageContext, Form], Awaitable[Confirmation]]:
    """Asks before an act what the fields of its form tell, and the API. Details that say nothing are left out."""

    async def confirm(request: PageContext, form: Form) -> Confirmation:
        page, told = fill_path(back, form), {} if tell is None else await tell(request, form)
        return Confirmation(
            question=fill_words(question, form, told),
            details=tuple(text for each in details if (text := fill_words(each, form, told))),
            back=page,
            needs_reason=needs_reason,
            choices=choices,
        )

    return confirm


def fill_words(words: Words, form: Form, told: Mapping[str, str]) -> str:
    """A sentence with what was told by the names in it, and the fields that it names beside."""
    if not isinstance(words, str):
        return words(form)
    return _FIELD.sub(lambda name: told[name[1]] if name[1] in told else form.require(name[1]), words)


def _build_body(form: Form, body: Body) -> bytes | None:
    if body is None:
        return None
    if isinstance(body, str):
        return read_json(form, body)
    if not isinstance(body, Mapping):
        return body(form)
    members = {name: read(form, name) for name, read in body.items()}
    return encode({name: value for name, value in members.items() if not isinstance(value, UnsetType)})


def read_text(form: Form, name: str) -> str:
    """A text. Raises ``InvalidField`` where there is none."""
    return form.require(name)


def read_text_if_any(form: Form, name: str) -> str | UnsetType:
    """A text; nothing is sent where there is none."""
    return form.get(name) or UNSET


def read_number(form: Form, name: str) -> int:
    """A whole number. Raises ``InvalidField``."""
    form.require(name)
    return form.get_number(name)


def read_json(form: Form, name: str) -> bytes:
    """A field that is a JSON document, as it was typed. Raises ``InvalidField``."""
    text = form.require(name)
    if len(text) > MAX_DOCUMENT_CHARS:
        raise InvalidField(name, "is longer than 10 MiB")
    try:
        raw = text.encode()
        decode(raw)
    except (MalformedJson, UnicodeEncodeError) as malformed:
        raise InvalidField(name, f"is no JSON: {malformed}") from malformed
    return raw


def read_value(form: Form, name: str) -> JsonValue:
    """What a JSON document says. Raises ``InvalidField``."""
    return decode(read_json(form, name))


def read_object(form: Form, name: str) -> JsonObject:
    """A JSON object, empty where nothing was typed. Raises ``InvalidField``."""
    value = read_value(form, name) if form.get(name).strip() else {}
    if not isinstance(value, dict):
        raise InvalidField(name, "is a JSON object, such as {}")
    return value


SUSPENSION_TIMEOUT_S: Final = 15.0
"""All nodes are waited for, for ten seconds at most."""
POLICIES: Final = ("FIRE", "SHIFT")
SHIFTED: Final = Choice(
    "timers",
    "Timers that came due meanwhile",
    (("FIRE", "fire now"), ("SHIFT", "are shifted by the time of the suspension")),
)
MOVED: Final = Choice(
    "timers",
    "Timers",
    (("FIRE", "fire what came due meanwhile"), ("SHIFT", "move all timers by the length of the pause")),
)


class Suspendable(Struct, frozen=True, kw_only=True):
    """What can be suspended: acts are called ``suspend_<name>`` and ``resume_<name>``."""

    name: str
    noun: str = ""
    """In the labels of the acts; empty: none."""
    read_target: Callable[[Form], JsonObject]
    """Scope and target, as the API takes them. Raises ``InvalidField``, as the two below do."""
    subject: Words
    """What it is, for a question."""
    page: Words
    """The page of it, to which both acts lead back."""
    effects: tuple[Words, ...]
    """What to suspend it comes to."""
    tell: Tell | None = None
    """Asks the API for names in the effects, and for another ``subject`` where it knows a better one."""
    resumed: tuple[str, ...] = ()
    """What to resume it comes to."""
    timers: Choice = SHIFTED
    is_dangerous: bool = False


def build_acts(of: Suspendable) -> tuple[Action, Action]:
    """The two acts."""

    def write_suspension(form: Form) -> bytes:
        return encode({**of.read_target(form), "reason": form.require("reason")})

    async def tell_subject(_request: PageContext, form: Form) -> Mapping[str, str]:
        return {"subject": fill_words(of.subject, form, {})}

    async def tell(request: PageContext, form: Form) -> Mapping[str, str]:
        return {**await tell_subject(request, form), **(await of.tell(request, form) if of.tell is not None else {})}

    noun = f" {of.noun}" if of.noun else ""
    return (
        Action(
            f"suspend_{of.name}",
            f"Suspend{noun}",
            send("POST", "/ops/v1/suspensions", write_suspension, timeout_s=SUSPENSION_TIMEOUT_S),
            lead_to(of.page),
            ask("Suspend {subject}?", *of.effects, back=of.page, tell=tell, needs_reason=True),
            role=OPERATOR,
            is_dangerous=of.is_dangerous,
        ),
        Action(
            f"resume_{of.name}",
            f"Resume{noun}",
            send("POST", "/ops/v1/suspensions/{suspension}/resume", _write_resumption, timeout_s=SUSPENSION_TIMEOUT_S),
            lead_to(of.page),
            ask(
                "Resume {subject}?",
                *of.resumed,
                back=of.page,
                tell=tell_subject,
                needs_reason=True,
                choices=(of.timers,),
            ),
            role=OPERATOR,
        ),
    )


def _write_resumption(form: Form) -> bytes:
    return encode({"timers": form.get_choice("timers", POLICIES), "reason": form.require("reason")})


KEY_FIELD: Final = "idempotency_key"

FRAME_FIELDS: Final = frozenset({"form_token", KEY_FIELD})


def _read_key(form: Form) -> str:
    key = read_key(form.require(KEY_FIELD))
    if key is None:
        raise InvalidField(KEY_FIELD, "not 1 to 255 visible ASCII characters")
    return key


class ConfirmationView(Struct, frozen=True, kw_only=True):
    """The page that asks."""

    action: Action
    confirmation: Confirmation
    fields: tuple[tuple[str, str], ...]
    key: str
    curl: str


class CallView(Struct, frozen=True, kw_only=True):
    """The call that a form would make, as a command line."""

    label: str
    curl: str
    is_cut: bool
    back: str


ActStep = Literal["confirm", "call", "do"]


class ActionForms:
    """Asks and acts."""

    def __init__(self, frame: PageFrame) -> None:
        self._frame = frame

    async def answer(self, step: ActStep, action: Action, context: PageContext, form: Form) -> ConsoleResponse:
        """The page that asks, the one with the call that would be made, or what came of the act."""
        if step != "call" and not context.viewer.may(action.role):
            detail = "You are read only." if context.viewer.is_read_only else f"It needs the permission {action.role}."
            problem = Problem(status=403, title="You may not see or do this", detail=detail)
            return self._frame.show_problem(context, problem)
        try:
            match step:
                case "confirm":
                    return await self._confirm(action, context, form)
                case "call":
                    return self._show_call(action, context, form)
                case "do":
                    return await self._perform(action, context, form)
        except CallFailed as failed:
            return self._frame.show_problem(context, build_problem(failed.reply))
        except InvalidField as invalid:
            problem = Problem(status=400, title=f"«{invalid.field}» cannot be used", detail=invalid.reason)
            return self._frame.show_problem(context, problem)

    async def _confirm(self, action: Action, context: PageContext, form: Form) -> ConsoleResponse:
        """The page that asks whether it is to be done, with the very call that would be sent."""
        if action.confirm is None:
            return self._frame.refuse(404, "This action asks nothing")
        confirmation = await action.confirm(context, form)
        call = action.build(Form((*form.pairs, *_preset(confirmation, form))))
        view = ConfirmationView(
            action=action,
            confirmation=confirmation,
            fields=_drop_frame_fields(form).pairs,
            key=token_hex(16),
            curl=self._frame.format_curl(context, call),
        )
        return self._frame.render_page(context, "pages/confirm.html", View(title=action.label, data=view))

    def _show_call(self, action: Action, context: PageContext, form: Form) -> ConsoleResponse:
        """The call that a form would make of what is filled in. Nothing is done."""
        call = action.build(form)
        view = CallView(
            label=action.label,
            curl=self._frame.format_curl(context, call),
            is_cut=not call.fits_line,
            back=_read_back(form) or "/console/",
        )
        return self._frame.render_page(context, "pages/call.html", View(title=action.label, data=view))

    async def _perform(self, action: Action, context: PageContext, form: Form) -> ConsoleResponse:
        """Make the call; send the browser to what it did, or show why it was refused."""
        fields = _drop_frame_fields(form)
        try:
            call = action.build(fields)
            key = _read_key(form)
        except InvalidField as invalid:
            if action.show_invalid is None:
                raise
            with suppress(InvalidField):  # the form itself cannot be found by what was sent
                return self._show(action, context, await action.show_invalid(context, fields, invalid))
            raise
        headers: Mapping[str, str] = dict(call.headers) | {"Idempotency-Key": key}
        reply = await context.call_one(replace(call, headers=tuple(headers.items())))
        view = None if action.show is None else await action.show(context, fields, reply)
        if view is not None:
            return self._show(action, context, view)
        if not reply.is_ok:
            problem, back = build_problem(reply), _read_back(fields)
            if back:
                problem = replace(problem, offers=((back, "Back to where you were"), *problem.offers))
            return self._frame.show_problem(context, problem)
        target = action.follow(fields, reply)
        separator = "&" if "?" in target else "?"
        return build_redirect(f"{target}{separator}{DONE}={action.name}")

    def _show(self, action: Action, context: PageContext, view: View) -> ConsoleResponse:
        return self._frame.render_page(context, view.template or f"pages/{action.name}.html", view)


def _drop_frame_fields(form: Form) -> Form:
    return Form(tuple(pair for pair in form.pairs if pair[0] not in FRAME_FIELDS))


def _read_back(form: Form) -> str:
    """The page that a form says it is on; empty where that is none of ours."""
    back = form.get("back")
    return back if back.startswith("/console/") else ""


def _preset(confirmation: Confirmation, form: Form) -> tuple[tuple[str, str], ...]:
    """The fields that the page itself asks for, as they are before anything is chosen."""
    chosen = tuple((choice.name, choice.options[0][0]) for choice in confirmation.choices if not form.get(choice.name))
    return (*chosen, ("reason", "…")) if confirmation.needs_reason and not form.get("reason") else chosen
