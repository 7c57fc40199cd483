"""Stopping something for a while, and letting it go on: one pair of acts, whatever it is that stands still
(docs/reference/operations.md#suspensions).
"""

from collections.abc import Callable, Mapping
from typing import Final

from msgspec import Struct

from statewright.console.acts import Tell, Words, ask, fill_words, lead_to, send
from statewright.console.request import OPERATOR, Action, Form, PageContext
from statewright.console.views.page import Choice
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
