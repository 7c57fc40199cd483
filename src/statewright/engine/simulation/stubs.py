"""Stubs in place of calculation members: what they would answer, in order; the last answer stays.

What a simulation tells.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, TypeAlias, TypeVar

from msgspec import Struct

from statewright.compute.callout import Callout, CalloutKind, CalloutResult
from statewright.entity import TaskKey
from statewright.jsonval.codec import decode, encode
from statewright.jsonval.patches import apply_merge_patch
from statewright.jsonval.values import JsonObject, JsonValue
from statewright.operations.checks import CalledProcessor, Outcome, SimulatedMove, SimulationFinding

AnswerT = TypeVar("AnswerT")


class ProcessorStub(Struct, frozen=True, kw_only=True):
    """An answer of a processor: it fails with ``error``, or changes the document by a JSON Merge Patch (RFC 7396)."""

    error: str | None = None
    merge_patch: "JsonObject | None" = None


class FunctionStub(Struct, frozen=True, kw_only=True):
    """What a schedule function answers; the members are those of the protocol."""

    result: JsonObject


class Stubs(Struct, frozen=True, kw_only=True):
    """Answers by the name of processor, criterion and schedule function."""

    processors: Mapping[str, Sequence[ProcessorStub]] = {}
    criteria: Mapping[str, Sequence[bool]] = {}
    functions: Mapping[str, Sequence[FunctionStub]] = {}


Answer: TypeAlias = Callable[[Callout], CalloutResult | None]
"""Answers a callout in place of a member, at once; None: nobody there is asked for it. It may raise what a transport
raises.
"""

DUE_AT_ONCE: Final[JsonObject] = {"fireAfterMs": 0}
"""What a schedule function without a stub answers."""

_WITHOUT_STUB: Final = {
    "processors": "it counts as success without change",
    "criteria": "it does not hold",
    "functions": "it says at once",
}


class StubTransport:
    """Answers callouts of the engine. ``check_limits`` is called before each of them."""

    def __init__(self, stubs: Stubs, answer: "Answer | None", check_limits: Callable[[], None]) -> None:
        self._stubs = stubs
        self._answer = answer
        self._check_limits = check_limits
        self._used: Counter[tuple[str, str]] = Counter()
        self._missing: dict[tuple[str, str], SimulationFinding] = {}
        self.processors: list[CalledProcessor] = []
        """Since they were taken last."""
        self.modes: Mapping[str, str] = {}
        """The modes of the processors of the transition under way."""

    @property
    def findings(self) -> tuple[SimulationFinding, ...]:
        """Stubs that the scenario lacks."""
        return tuple(self._missing.values())

    async def dispatch(self, callout: Callout, *, avoiding: Collection[str] = ()) -> CalloutResult:
        """The next answer of a stub, else what the scenario answers itself; success without change where there is
        none.
        """
        self._check_limits()
        if self._answer is not None and not self._has_stub(callout):
            found = self._answer(callout)
            if found is not None:
                self._note_processor(callout, found.error or "failed" if not found.success else None)
                return found
        match callout.kind:
            case "processor":
                return self._process(callout)
            case "criteria":
                answers = self._stubs.criteria.get(callout.name)
                matches = self._choose("criteria", callout.name, answers) or False
                return CalloutResult(success=True, matches=matches)
            case "function":
                stub = self._choose("functions", callout.name, self._stubs.functions.get(callout.name))
                result = DUE_AT_ONCE if stub is None else stub.result
                return CalloutResult(success=True, result=result, result_kind="Schedule")

    def _has_stub(self, callout: Callout) -> bool:
        known: Mapping[CalloutKind, Collection[str]] = {
            "processor": self._stubs.processors,
            "criteria": self._stubs.criteria,
            "function": self._stubs.functions,
        }
        return callout.name in known[callout.kind]

    def _note_processor(self, callout: Callout, error: str | None) -> None:
        if callout.kind == "processor":
            mode = self.modes.get(callout.name, "SYNC")
            self.processors.append(CalledProcessor(name=callout.name, mode=mode, error=error))

    def _process(self, callout: Callout) -> CalloutResult:
        stub = self._choose("processors", callout.name, self._stubs.processors.get(callout.name))
        error = None if stub is None else stub.error
        self._note_processor(callout, error)
        if error is not None:
            return CalloutResult(success=False, error=error)
        if stub is None or stub.merge_patch is None or callout.payload is None:
            return CalloutResult(success=True)
        changed = apply_merge_patch(_read_document(callout.payload), stub.merge_patch)
        return CalloutResult(success=True, data=encode(changed))

    def _choose(self, kind: str, name: str, answers: "Sequence[AnswerT] | None") -> "AnswerT | None":
        if not answers:
            message = f"there is no stub: {_WITHOUT_STUB[kind]}"
            finding = SimulationFinding(code="MISSING_STUB", path=f"/stubs/{kind}/{name}", message=message)
            self._missing.setdefault((kind, name), finding)
            return None
        number = self._used[kind, name]
        self._used[kind, name] += 1
        return answers[min(number, len(answers) - 1)]


def _read_document(payload: bytes) -> JsonValue:
    sent = decode(payload)
    return sent.get("data") if isinstance(sent, dict) else None


class SimulationResult(Struct, frozen=True, kw_only=True):
    """How it ended. ``timers`` are armed, with when they are due in epoch milliseconds; ``failure`` is why an event
    could not be carried out, which ends a simulation.
    """

    outcome: Outcome
    state: str | None
    document: JsonValue
    path: tuple[SimulatedMove, ...]
    timers: Mapping[TaskKey, int]
    findings: tuple[SimulationFinding, ...]
    failure: str | None = None
