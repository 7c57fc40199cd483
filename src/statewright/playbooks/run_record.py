"""What a run of a pipeline has done, as it is reported (:mod:`statewright.playbooks.dispatch`): its log, its patches,
and in the end its completion. Secrets of the keychain are masked in all of it.

What runs have reported while they go on (docs/reference/executions.md#reports-of-runs).

Patches of a report take effect at once. A run may begin again, when the lease of its worker is lost, and a completion
brings all patches of its run. So it is remembered which of them had their effect, by number and as a digest: what
comes again under the same number has none, and where a run that began again goes another way its patches count from
there on. Such a run sees ``ctx`` as it was before the patches of the first one, so that ``ctx.n + 1`` is the same
number again.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from decimal import Decimal
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from statewright.jsonval.codec import encode
from statewright.jsonval.values import JsonObject, JsonValue, is_whole
from statewright.playbooks.completions import MAX_PAUSE_BYTES, PAUSED, list_secrets, mask
from statewright.playbooks.context import remove_member, write_member
from statewright.playbooks.dispatch import Dispatch
from statewright.playbooks.pipeline import PipelineDecision, PipelineEnd, PipelineState, ToolCall, state_to_document
from statewright.playbooks.policies import Outcome, fail

MAX_LOG_ENTRIES: Final = 1_000
"""Of one run; what comes after them is counted."""
MAX_LOGGED_BYTES: Final = 64 * 1024
"""Of one result in the log."""


class RunRecord:
    """Of one run. Told of everything in the order in which it happens."""

    def __init__(self, dispatch: Dispatch) -> None:
        self._dispatch = dispatch
        self._secrets = list_secrets(dispatch.keychain)
        self._log: list[JsonValue] = []
        self._entries_before = 0 if dispatch.resume is None else dispatch.resume.entries
        if dispatch.resume is None:
            self._log.append({"event": "step.started" if dispatch.element is None else "loop.iteration.started"})
        self._left_out = 0
        self._patches: list[JsonValue] = []
        self._visits = Counter[str]()
        for label, visits in ({} if dispatch.resume is None else dispatch.resume.visits).items():
            self._visits[label] = visits if is_whole(visits) else 0
        self._taken = {"patches": 0, "log": 0}
        """What the service has acknowledged."""
        self._is_refused = False

    def begin_attempt(self, state: PipelineState) -> None:
        """The task that is next is about to be executed."""
        label = self._get_label(state)
        if state.attempts == 0:
            self._visits[label] += 1
            self._note("task.started", label)
        self._note("task.attempt.started", label, attempt=state.attempts + 1)

    def end_attempt(self, state: PipelineState, outcome: Outcome, *, duration_ms: int, ts: str) -> Outcome:
        """It was executed; ``state`` is that of before. The outcome with what was measured."""
        meta: JsonObject = {"attempt": state.attempts + 1, "duration_ms": duration_ms, "ts": ts}
        outcome = replace(outcome, meta=meta)
        event = "task.attempt.done" if outcome.is_ok else "task.attempt.failed"
        self._note(event, self._get_label(state), attempt=state.attempts + 1, outcome=_shorten(outcome))
        return outcome

    def take_turn(self, state: PipelineState, outcome: Outcome, turn: PipelineDecision) -> "JsonObject | None":
        """What the outcome led to; ``state`` is that of before. A progress report, if there are new patches: of all
        that the service has not acknowledged.
        """
        label = self._get_label(state)
        problems: list[JsonValue] = [problem.to_document() for problem in turn.problems]
        to = self._get_label(turn.state) if turn.do == "jump" and turn.end is None else None
        self._note("policy.task.evaluated", label, rule=turn.rule, action=turn.do, to=to, errors=problems)
        at = len(self._log)
        new = [mask({**patch.to_document(), "at": at}, self._secrets) for patch in turn.patches]
        self._patches += new
        report = self._build_report() if new and turn.end is None and not self._is_refused else None
        if turn.do != "retry" or turn.end is not None:
            self._note("task.done" if outcome.is_ok else "task.failed", label)
        return report

    def acknowledge(self, taken: JsonObject) -> None:
        """The service has answered a report. One that has not taken all of it is given the rest with the completion."""
        made = {"patches": len(self._patches), "log": len(self._log)}
        for name, most in made.items():
            count = taken.get(name)
            self._taken[name] = min(count, most) if isinstance(count, int) else 0
        self._is_refused = self._taken["patches"] != made["patches"]

    def _build_report(self) -> JsonObject:
        first, entry = self._taken["patches"], self._taken["log"]
        log = [mask(each, self._secrets) for each in self._log[entry:]]
        return {"patches": self._patches[first:], "from": first, "log": log, "logFrom": entry}

    def pause(self, state: PipelineState, call: ToolCall) -> "JsonObject | Outcome":
        """The completion of a run that is given back for a task, to go on behind it; an outcome of the task where the
        run would have to keep too much.
        """
        pause: JsonObject = {
            "fields": call.fields,
            "state": state_to_document(state),
            "visits": dict[str, JsonValue](self._visits),
            "entries": self._entries_before + len(self._log),
        }
        masked = mask(pause, self._secrets)
        if (size := len(encode(masked))) > MAX_PAUSE_BYTES:
            return fail("limit", f"a run that rests keeps {size} bytes, more than {MAX_PAUSE_BYTES}", retryable=False)
        log: list[JsonValue] = [mask(entry, self._secrets) for entry in self._log]
        return {
            "status": PAUSED,
            "pause": masked,
            "patches": self._patches,
            "log": log,
            "logged": self._taken["log"],
        }

    def complete(self, end: PipelineEnd, results: JsonObject) -> JsonObject:
        """The completion; ``results``: the latest by label."""
        document: JsonObject = {"status": "ok" if end.is_ok else "error", "result": end.result}
        if end.error is not None:
            document["error"] = end.error
        document |= {"patches": self._patches, "results": results, "log": self._log, "logged": self._taken["log"]}
        if self._left_out:
            document["logEntriesLeftOut"] = self._left_out
        masked = mask(document, self._secrets)
        assert isinstance(masked, dict)  # noqa: S101 - an object stays one
        return masked

    def _get_label(self, state: PipelineState) -> str:
        return self._dispatch.tasks[state.counter].label

    def _note(self, event: str, label: str, **known: JsonValue) -> None:
        if self._entries_before + len(self._log) < MAX_LOG_ENTRIES:
            self._log.append({"event": event, "task": label, "visit": self._visits[label], **known})
        else:
            self._left_out += 1


def _shorten(outcome: Outcome) -> JsonObject:
    """An outcome as the log has it: without what is said twice, and without a result that is too large."""
    document = outcome.to_document()
    del document["data"]
    if len(encode(document["result"])) > MAX_LOGGED_BYTES:
        document["result"] = None
        document["resultLeftOut"] = True
    return document


if TYPE_CHECKING:
    from statewright.jsonval.values import JsonValue
else:  # Any: msgspec, which reads documents back, cannot resolve an alias that contains itself
    JsonValue = Any

MAX_PATCHES: Final = 200
"""Of a run, that take effect before its end."""
MAX_CHARS: Final = 64 * 1024
"""Of the values that a run has replaced, and of those that it has set."""

Changes: TypeAlias = Sequence[tuple[str, JsonValue]]
"""Keys of ``ctx``, names with dots between them, and their values."""


class Replacement(Struct, frozen=True, array_like=True):
    """A member of ``ctx`` that a run has changed."""

    path: tuple[str, ...]
    existed: bool
    before: JsonValue
    after: JsonValue


class Progress(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What has been taken of the reports of a run."""

    lease: int
    """When the lease began of the worker that reported last, in epoch microseconds."""
    patches: tuple[str, ...] = ()
    """A digest of each patch that had its effect."""
    logged: int = 0
    """Entries of that worker's log that are in the event log."""
    replaced: tuple[Replacement, ...] = ()
    chars: int = 0


def count_known(progress: Progress | None, changes: Changes, first: int) -> int:
    """How many of the changes, the first of which is patch number ``first`` of its run, had their effect already."""
    known = progress.patches[first:] if progress is not None else ()
    count = 0
    while count < min(len(known), len(changes)) and known[count] == _digest(changes[count]):
        count += 1
    return count


def add_changes(progress: Progress, ctx: JsonObject, changes: Changes, first: int) -> Progress:
    """After changes to ``ctx`` that have an effect: patches of the run from number ``first`` on."""
    replaced, chars = list(progress.replaced), progress.chars
    for key, value in changes:
        path = tuple(key.split("."))
        found = _find_replaced(ctx, path)
        ctx = write_member(ctx, path, value)
        after = _read_member(ctx, found.path)[1]
        chars += len(encode([found.before, after]))
        replaced.append(replace(found, after=after))
    digests = (*progress.patches[:first], *map(_digest, changes))
    return replace(progress, patches=digests, replaced=tuple(replaced), chars=chars)


def restore(ctx: JsonObject, progress: Progress) -> JsonObject:
    """``ctx`` without what the run has changed, as far as nobody has changed it again."""
    for one in reversed(progress.replaced):
        if _read_member(ctx, one.path) == (True, one.after):
            ctx = write_member(ctx, one.path, one.before) if one.existed else remove_member(ctx, one.path)
    return ctx


def progress_to_document(progress: Mapping[str, Progress]) -> JsonObject:
    """That of all runs, by job."""
    return cast("JsonObject", msgspec.to_builtins(progress, builtin_types=(Decimal,), order="deterministic"))


def progress_from_document(document: JsonValue) -> dict[str, Progress]:
    """What :func:`progress_to_document` wrote. Raises ``ValueError`` for anything else."""
    return msgspec.convert(document, dict[str, Progress])


def _digest(change: tuple[str, JsonValue]) -> str:
    return blake2b(encode([change[0], change[1]]), digest_size=8).hexdigest()


def _find_replaced(ctx: JsonObject, path: tuple[str, ...]) -> Replacement:
    """What is replaced when a value is written at a path: on the way to it, what is no object."""
    scope = ctx
    for place, name in enumerate(path):
        if name not in scope:
            return Replacement(path[: place + 1], False, None, None)
        inner = scope[name]
        if place == len(path) - 1 or not isinstance(inner, dict):
            return Replacement(path[: place + 1], True, inner, None)
        scope = inner
    raise AssertionError("a path has a name")


def _read_member(scope: JsonValue, path: Sequence[str]) -> tuple[bool, JsonValue]:
    for name in path:
        if not isinstance(scope, dict) or name not in scope:
            return False, None
        scope = scope[name]
    return True, scope
