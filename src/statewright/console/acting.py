"""Actions: a confirmation where one is wanted, then one call of the API, then the page that shows its effect."""

from collections.abc import Mapping
from contextlib import suppress
from secrets import token_hex
from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from statewright.console.calls import CallFailed
from statewright.console.frame import DONE, PageFrame
from statewright.console.request import Action, Form, InvalidField, PageContext, build_problem
from statewright.console.response import ConsoleResponse, build_redirect
from statewright.console.views.page import Confirmation, Problem, View

KEY_FIELD: Final = "idempotency_key"
FRAME_FIELDS: Final = frozenset({"form_token", KEY_FIELD})


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
            key = form.require(KEY_FIELD)
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
