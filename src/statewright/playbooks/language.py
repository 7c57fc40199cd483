"""What playbooks plug into the kernel: admission, arcs, loops, and what an execution comes to
(docs/reference/executions.md).

The expressions of a net are names here: a step for its admission, ``step#n`` for the n-th of its arcs. Templates stand
in the playbook, compiled.
"""

from collections import ChainMap
from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from statewright.jsonval.codec import encode
from statewright.jsonval.values import JsonObject, JsonValue, is_number, merge_deep
from statewright.loop.turns import TurnExceeded, is_large
from statewright.net import (
    Completed,
    Concluded,
    ElementResult,
    Language,
    Node,
    NodeId,
    Performed,
    Problem,
    Tally,
    Verdict,
    Visit,
)
from statewright.playbooks import templates
from statewright.playbooks.context import (
    CTX,
    EXECUTION,
    HAS_GAPS,
    LAST,
    RESULTS,
    WORKLOAD,
    Watched,
    change_context,
    find_changed_parts,
    find_watched,
    get_member,
)
from statewright.playbooks.definition import Assignment, NextArc, Playbook, Step, list_elements
from statewright.playbooks.dispatch import (
    Elements,
    NeededCredential,
    Needs,
    find_credentials,
    find_needs,
    summarize_elements,
)
from statewright.playbooks.graph import (
    build_event,
    build_outcome,
    describe_error,
    find_status,
    get_result,
    revive_event,
    to_problem,
)
from statewright.playbooks.pipeline import build_child_input, is_child, run_inline
from statewright.playbooks.templates import EvaluationContext, holds, render, render_object

ARGS: Final = "args"
EVENT: Final = "event"
ITEMS: Final = "items"
_STEPS_PER_NODE: Final = 20
"""Steps that looking at a node counts as, in a turn."""


class StepRules(Struct, frozen=True, kw_only=True):
    """What is known of a step before it runs."""

    step: Step
    watched: Watched
    """By its admission."""
    needs: Needs
    """Of its pipeline."""
    credentials: tuple[NeededCredential, ...] = ()


class PlaybookLanguage(Language):
    """The language of one playbook, for one operation, at whose instant all of it happens.

    With a turn, an operation that computes more raises ``TurnExceeded``.
    """

    def __init__(self, playbook: Playbook, rules: Mapping[str, StepRules], context: EvaluationContext) -> None:
        self._playbook = playbook
        self._rules = rules
        self._context = context
        self._verdicts: dict[str, tuple[JsonObject, Verdict]] = {}
        """The last one of each step whose admission says the same of all tokens, and the data it was made with."""

    def build_input(self, data: JsonObject, node: Node, payloads: Sequence[JsonValue]) -> "JsonValue | Problem":
        """What the worker is given beside the data: ``args``; of a loop also its ``items``, as they are now."""
        self._spend()
        step, args = self._rules[node.id].step, get_args(payloads)
        entry: JsonObject = {ARGS: args}
        if step.loop is not None:
            value = render(step.loop.items, self._build_scope(data, payloads), self._context)
            if isinstance(value, templates.Problem):
                return _convert(value)
            items = list_elements(value)
            if len(items) > self._playbook.limits.max_loop_elements:
                return _refuse(
                    "loop_limit", f"{len(items)} elements, more than {self._playbook.limits.max_loop_elements}"
                )
            return {**entry, ITEMS: items}
        if is_child(step):
            return build_child_input(self._playbook, step, data, entry, context=self._context)
        return entry

    def build_child_input(self, data: JsonObject, visit: Visit) -> "JsonValue | Problem":
        """What the execution of another playbook is started with that does an element."""
        self._spend()
        given = visit.input if isinstance(visit.input, dict) else {}
        step = self._rules[visit.node.id].step
        return build_child_input(self._playbook, step, data, given, context=self._context, element=visit.element)

    def perform(self, data: JsonObject, visit: Visit) -> Performed:
        """Run a pipeline of tasks that do nothing but set values."""
        self._spend()
        step = self._rules[visit.node.id].step
        return run_inline(self._playbook, step, data, get_args(visit.payloads), self._context)

    def complete(self, data: JsonObject, visit: Visit) -> Completed | Problem:
        """Keep the result of a step, and set what it says. A failure changes nothing."""
        self._spend()
        step = self._rules[visit.node.id].step
        if visit.outcome == "FAILED":
            return Completed(data=data, output=describe_error(visit.output))
        if visit.element is not None:
            return Completed(data=data, payloads=(visit.output,), output=visit.output)
        result = get_result(step, visit.output)
        after: JsonObject = {**data, RESULTS: {**get_member(data, RESULTS), step.name: result}, LAST: step.name}
        if step.loop is not None and isinstance(visit.output, dict) and visit.output.get("failed"):
            after[HAS_GAPS] = True
        changes = self._assign(step.set, after, visit)
        if isinstance(changes, Problem):
            return changes
        return Completed(data=after, changes=changes, output=visit.output)

    def patch(self, data: JsonObject, changes: JsonObject) -> "JsonObject | Problem":
        """The data after changes to ``ctx``."""
        return change_context(data, changes, self._playbook.limits.max_ctx_bytes)

    def evaluate_guard(self, guard: str, data: JsonObject, visit: Visit) -> bool | Problem:
        """Whether an arc matches."""
        self._spend()
        when = self._get_arc(guard).when
        verdict = True if when is None else holds(when, self._build_boundary_scope(data, visit), self._context)
        return _convert(verdict) if isinstance(verdict, templates.Problem) else verdict

    def inscribe(self, expression: str, data: JsonObject, visit: Visit) -> "JsonValue | Problem":
        """What the token of an arc carries: ``args``, and the event if the admission of its step looks at that."""
        arc = self._get_arc(expression)
        args = render_object(arc.args, self._build_boundary_scope(data, visit), self._context)
        if isinstance(args, templates.Problem):
            return _convert(args)
        limit = self._playbook.limits.max_args_bytes
        if self._context.turn is not None and is_large(args):
            raise TurnExceeded
        if args and (size := len(encode(args))) > limit:
            return _refuse("args_limit", f"args have {size} bytes, more than {limit}")
        carried: JsonObject = {ARGS: args}
        if self._rules[arc.target].watched.sees_event:
            carried[EVENT] = build_event(self._rules[visit.node.id].step, visit)
        return carried

    def assign(self, expression: str, data: JsonObject, visit: Visit) -> "JsonObject | Problem":
        """What an arc sets."""
        return self._assign(self._get_arc(expression).set, data, visit)

    def admit(self, rule: str, data: JsonObject, visit: Visit) -> Verdict:
        """The first rule that matches decides; one that cannot be evaluated denies."""
        self._spend()
        known = self._verdicts.get(rule)
        if known is not None and known[0] is data:
            return known[1]
        verdict = self._ask(rule, data, visit)
        if not self._rules[rule].watched.sees_token:
            self._verdicts[rule] = (data, verdict)
        return verdict

    def _ask(self, rule: str, data: JsonObject, visit: Visit) -> Verdict:
        admission = self._rules[rule].step.admission
        if admission is None:
            return Verdict(allows=True)
        scope = self._build_scope(data, visit.payloads)
        for index, each in enumerate(admission.rules):
            matches = True if each.when is None else holds(each.when, scope, self._context)
            if isinstance(matches, templates.Problem):
                return Verdict(allows=False, details={"rule": index, "errors": [matches.to_document()]})
            if matches:
                return Verdict(allows=each.allow, details={"rule": index})
        if admission.otherwise is None:
            return Verdict(allows=False, details={"rule": "default"})
        return Verdict(allows=admission.otherwise, details={"rule": "else"})

    def find_changes(self, before: JsonObject, after: JsonObject) -> frozenset[str] | None:
        """The members of ``ctx`` and ``results`` that have changed."""
        return find_changed_parts(before, after)

    def list_items(self, data: JsonObject, visit: Visit) -> Sequence[JsonValue]:
        """The elements, each with what its worker is given."""
        return Elements(visit.input)

    def choose_limit(self, data: JsonObject, visit: Visit, limit: int | None) -> int | Problem | None:
        """``max_in_flight``, where it is a template."""
        loop = self._rules[visit.node.id].step.loop
        if loop is None or isinstance(loop.max_in_flight, int):
            return limit
        value = render(loop.max_in_flight, self._build_scope(data, visit.payloads), self._context)
        if isinstance(value, templates.Problem):
            return _convert(value)
        if not is_number(value) or value < 1 or value != int(value):
            return _refuse("template", "max_in_flight must give a whole number of 1 or more")
        return int(value)

    def collect(self, data: JsonObject, visit: Visit, results: Sequence[ElementResult]) -> JsonValue:
        """The counts, results and errors of a loop."""
        return summarize_elements(len(Elements(visit.input)), results)

    def explain_loop(self, failed: int, size: int, output: JsonValue) -> str:
        """With the first element that failed, and its error."""
        return (
            f"LOOP: {describe_error(output).get('message')}" if isinstance(output, dict) else f"LOOP: {failed} failed"
        )

    def judge(self, data: JsonObject, tally: Tally) -> Concluded:
        """The status of the execution, with counts, failures and a result."""
        status = find_status(self._playbook, tally, has_gaps=data.get(HAS_GAPS) is True)
        final = self._playbook.final
        last = final if final is not None and tally.final == "DONE" else data.get(LAST)
        result: JsonObject = {
            "status": status,
            "result": get_member(data, RESULTS).get(str(last)),
            **_describe_branches(tally),
        }
        reason = tally.verdict or (tally.failures[0].reason if tally.failures else status)
        return Concluded(result=result, failure=reason if status == "failed" else None)

    def summarize(self, data: JsonObject, tally: Tally, visits: Mapping[NodeId, int]) -> JsonValue:
        """What the token of the final step carries; results are named, not copied, since it sees them anyway."""
        results: JsonObject = {name: f"{RESULTS}.{name}" for name in get_member(data, RESULTS)}
        args: JsonObject = {
            "execution_id": get_member(data, EXECUTION).get("id"),
            **_describe_branches(tally),
            "steps": {str(step): count for step, count in visits.items()},
            "results": results,
        }
        return {ARGS: args}

    def _assign(self, assignments: Sequence[Assignment], data: JsonObject, visit: Visit) -> "JsonObject | Problem":
        """Changes, each of which sees those before it."""
        changes: JsonObject = {}
        for assignment in assignments:
            value = render(assignment.value, self._build_boundary_scope(data, visit), self._context)
            if isinstance(value, templates.Problem):
                return _convert(value)
            changes[assignment.key] = value
            changed = self.patch(data, {assignment.key: value})
            if isinstance(changed, Problem):
                return changed
            data = changed
        return changes

    def _build_scope(self, data: JsonObject, payloads: Sequence[JsonValue]) -> templates.Scope:
        """What admission and the loop of a step see."""
        event = get_event(payloads)
        return _build_names(data, get_args(payloads), {} if event is None else {EVENT: revive_event(event)})

    def _build_boundary_scope(self, data: JsonObject, visit: Visit) -> templates.Scope:
        """What arcs see."""
        step = self._rules[visit.node.id].step
        outcome = build_outcome(step, visit)
        boundary: dict[str, JsonValue] = {
            EVENT: revive_event(build_event(step, visit)),
            "outcome": outcome,
            "output": outcome,
        }
        return _build_names(data, get_args(visit.payloads), boundary)

    def _get_arc(self, expression: str) -> NextArc:
        name, _, index = expression.rpartition("#")
        router = self._rules[name].step.router
        assert router is not None  # noqa: S101 - compiled from its arcs
        return router.arcs[int(index)]

    def _spend(self) -> None:
        if self._context.turn is not None:
            self._context.turn.spend(_STEPS_PER_NODE)


def _build_names(data: JsonObject, args: JsonObject, more: dict[str, JsonValue]) -> templates.Scope:
    """The scopes by their names; what is none of them is the name of a member of ``args``, of a result, or of a member
    of the workload, whichever comes first (docs/reference/playbooks.md#names-in-templates).
    """
    results, workload = get_member(data, RESULTS), get_member(data, WORKLOAD)
    scopes: dict[str, JsonValue] = {
        WORKLOAD: data.get(WORKLOAD),
        CTX: data.get(CTX),
        RESULTS: results,
        ARGS: args,
        "execution_id": get_member(data, EXECUTION).get("id"),
        **more,
    }
    return ChainMap(scopes, args, results, workload)


def get_args(payloads: Sequence[JsonValue]) -> JsonObject:
    """``args`` of a token; of a joined one, those of all, in the order of the sources."""
    args: JsonObject = {}
    for payload in payloads:
        carried = payload.get(ARGS) if isinstance(payload, dict) else None
        if isinstance(carried, dict):
            args = merge_deep(args, carried) if args else carried
    return args


def get_event(payloads: Sequence[JsonValue]) -> "JsonObject | None":
    """The event that made a token; of a joined one the latest."""
    events = [payload[EVENT] for payload in payloads if isinstance(payload, dict) and EVENT in payload]
    found = [event for event in events if isinstance(event, dict)]
    return max(found, key=lambda event: str(event.get("timestamp")), default=None)


def build_rules(playbook: Playbook) -> dict[str, StepRules]:
    """What is known of each step."""
    return {
        step.name: StepRules(
            step=step,
            watched=_find_watched(step),
            needs=find_needs(step),
            credentials=find_credentials(playbook, step),
        )
        for step in playbook.steps
    }


def _find_watched(step: Step) -> Watched:
    rules = () if step.admission is None else step.admission.rules
    return find_watched([rule.when for rule in rules if rule.when is not None])


def _describe_branches(tally: Tally) -> JsonObject:
    failures: list[JsonValue] = [
        {
            "step": failure.node,
            "error": describe_error(failure.reason if failure.error is None else failure.error),
        }
        for failure in tally.failures
    ]
    return {"succeeded": tally.succeeded, "failed": tally.failed, "failures": failures}


def _convert(problem: templates.Problem) -> Problem:
    return to_problem(problem.to_document())


def _refuse(kind: str, message: str) -> Problem:
    return to_problem({"kind": kind, "message": message})
