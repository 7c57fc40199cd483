"""Stopping something for a while, and letting it go on: one pair of acts, whatever it is that stands still
(docs/reference/operations.md#suspensions).
"""

from collections.abc import Awaitable, Callable
from typing import Final

from msgspec import Struct

from statewright.console.calls import ApiCall, Reply, build_ops_call
from statewright.console.request import OPERATOR, Action, ConsoleRequest, Form
from statewright.console.views.page import Choice, Confirmation
from statewright.jsonval.codec import encode
from statewright.jsonval.values import JsonObject

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
    describe: Callable[[Form], str]
    """What it is, for a question."""
    get_page: Callable[[Form], str]
    """The page of it, to which both acts lead back."""
    tell: Callable[[ConsoleRequest, Form], Awaitable[tuple[str, tuple[str, ...]]]]
    """What it is, and what to suspend it comes to."""
    resumed: tuple[str, ...] = ()
    """What to resume it comes to."""
    timers: Choice = SHIFTED
    is_dangerous: bool = False


def build_acts(of: Suspendable) -> tuple[Action, Action]:
    """The two acts."""

    def build_suspension(form: Form) -> ApiCall:
        body: JsonObject = {**of.read_target(form), "reason": form.require("reason")}
        return build_ops_call("suspensions", method="POST", body=encode(body), timeout_s=SUSPENSION_TIMEOUT_S)

    def build_resumption(form: Form) -> ApiCall:
        body: JsonObject = {"timers": form.get_choice("timers", POLICIES), "reason": form.require("reason")}
        path = ("suspensions", form.require("suspension"), "resume")
        return build_ops_call(*path, method="POST", body=encode(body), timeout_s=SUSPENSION_TIMEOUT_S)

    def follow(form: Form, _reply: Reply) -> str:
        return of.get_page(form)

    async def confirm_suspension(request: ConsoleRequest, form: Form) -> Confirmation:
        subject, details = await of.tell(request, form)
        return Confirmation(question=f"Suspend {subject}?", details=details, back=of.get_page(form), needs_reason=True)

    async def confirm_resumption(_request: ConsoleRequest, form: Form) -> Confirmation:
        return Confirmation(
            question=f"Resume {of.describe(form)}?",
            details=of.resumed,
            back=of.get_page(form),
            needs_reason=True,
            choices=(of.timers,),
        )

    noun = f" {of.noun}" if of.noun else ""
    return (
        Action(
            name=f"suspend_{of.name}",
            label=f"Suspend{noun}",
            build=build_suspension,
            follow=follow,
            confirm=confirm_suspension,
            role=OPERATOR,
            is_dangerous=of.is_dangerous,
        ),
        Action(
            name=f"resume_{of.name}",
            label=f"Resume{noun}",
            build=build_resumption,
            follow=follow,
            confirm=confirm_resumption,
            role=OPERATOR,
        ),
    )
