"""Actions: a confirmation where one is wanted, then one call of the API, then the page that shows its effect."""

from collections.abc import Mapping
from secrets import token_hex
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from statewright.console.calls import CallFailed
from statewright.console.frame import DONE, FrameConfig, PageFrame
from statewright.console.request import Action, ConsoleRequest, Form, InvalidField, build_problem
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


class ActionForms:
    """Asks and acts."""

    def __init__(self, frame: PageFrame, config: FrameConfig) -> None:
        self._frame = frame
        self._config = config

    async def confirm(self, action: Action, request: ConsoleRequest, form: Form, origin: str) -> ConsoleResponse:
        """The page that asks whether it is to be done, with the very call that would be sent."""
        refusal = self._refuse(action, request, origin)
        if refusal is not None:
            return refusal
        if action.confirm is None:
            return self._frame.refuse(404, "This action asks nothing")
        try:
            confirmation = await action.confirm(request, form)
            asked = Form((*form.pairs, *_preset(confirmation, form)))
            call = action.build(asked)
        except CallFailed as failed:
            return self._frame.show_problem(request, build_problem(failed.reply), origin)
        except InvalidField as invalid:
            return self._show_invalid(request, invalid, origin)
        view = ConfirmationView(
            action=action,
            confirmation=confirmation,
            fields=tuple(pair for pair in form.pairs if pair[0] not in FRAME_FIELDS),
            key=make_idempotency_key(),
            curl=self._frame.format_curl(call, origin),
        )
        page = View(title=action.label, data=view)
        return self._frame.render_page(request, "pages/confirm.html", page, origin)

    def show_call(self, action: Action, request: ConsoleRequest, form: Form, origin: str) -> ConsoleResponse:
        """The call that a form would make of what is filled in. Nothing is done."""
        try:
            call = action.build(form)
        except InvalidField as invalid:
            return self._show_invalid(request, invalid, origin)
        back = form.get("back")
        view = CallView(
            label=action.label,
            curl=self._frame.format_curl(call, origin),
            is_cut=not call.fits_line,
            back=back if back.startswith("/console/") else "/console/",
        )
        return self._frame.render_page(request, "pages/call.html", View(title=action.label, data=view), origin)

    async def perform(self, action: Action, request: ConsoleRequest, form: Form, origin: str) -> ConsoleResponse:
        """Make the call; send the browser to what it did, or show why it was refused."""
        refusal = self._refuse(action, request, origin)
        if refusal is not None:
            return refusal
        fields = Form(tuple(pair for pair in form.pairs if pair[0] not in FRAME_FIELDS))
        try:
            call = action.build(fields)
            key = form.require(KEY_FIELD)
        except InvalidField as invalid:
            return await self._show_form_again(action, request, fields, invalid, origin)
        headers: Mapping[str, str] = dict(call.headers) | {"Idempotency-Key": key}
        reply = await request.call_one(replace(call, headers=tuple(headers.items())))
        try:
            view = None if action.show is None else await action.show(request, fields, reply)
        except CallFailed as failed:
            return self._frame.show_problem(request, build_problem(failed.reply), origin)
        if view is not None:
            return self._frame.render_page(request, view.template or f"pages/{action.name}.html", view, origin)
        if not reply.is_ok:
            back = fields.get("back") or None
            problem = build_problem(reply)
            if back is not None and back.startswith("/console/"):
                problem = replace(problem, offers=((back, "Back to where you were"), *problem.offers))
            return self._frame.show_problem(request, problem, origin)
        target = action.follow(fields, reply)
        separator = "&" if "?" in target else "?"
        return build_redirect(f"{target}{separator}{DONE}={action.name}")

    def _refuse(self, action: Action, request: ConsoleRequest, origin: str) -> ConsoleResponse | None:
        if request.viewer.may(action.role):
            return None
        detail = "You are read only." if request.viewer.is_read_only else f"It needs the permission {action.role}."
        problem = Problem(status=403, title="You may not see or do this", detail=detail)
        return self._frame.show_problem(request, problem, origin)

    async def _show_form_again(
        self, action: Action, request: ConsoleRequest, fields: Form, invalid: InvalidField, origin: str
    ) -> ConsoleResponse:
        if action.show_invalid is None:
            return self._show_invalid(request, invalid, origin)
        try:
            view = await action.show_invalid(request, fields, invalid)
        except CallFailed as failed:
            return self._frame.show_problem(request, build_problem(failed.reply), origin)
        except InvalidField:  # the form itself cannot be found by what was sent
            return self._show_invalid(request, invalid, origin)
        return self._frame.render_page(request, view.template or f"pages/{action.name}.html", view, origin)

    def _show_invalid(self, request: ConsoleRequest, invalid: InvalidField, origin: str) -> ConsoleResponse:
        problem = Problem(status=400, title=f"«{invalid.field}» cannot be used", detail=invalid.reason)
        return self._frame.show_problem(request, problem, origin)


def make_idempotency_key() -> str:
    """A key for one form: what is sent twice with it is done once."""
    return token_hex(16)


def _preset(confirmation: Confirmation, form: Form) -> tuple[tuple[str, str], ...]:
    """The fields that the page itself asks for, as they are before anything is chosen."""
    chosen = tuple((choice.name, choice.options[0][0]) for choice in confirmation.choices if not form.get(choice.name))
    return (*chosen, ("reason", "…")) if confirmation.needs_reason and not form.get("reason") else chosen
