"""What a worker is given for one run of a pipeline: of a step, or of one element of its loop.

It is the payload of one job (``variables`` of a claim), built by the service when the job is claimed:

    {"executionId": …, "at": …, "step": …, "stepRun": …, "tasks": […], "input": …,
     "workload": {…}, "ctx": {…}, "args": {…}, "results": {…},
     "loop": {"iterator": "item", "element": …, "index": 0, "isLast": false, "parent": {…}},
     "keychain": {…}, "maxTaskExecutions": 10000}

``at`` is the instant at which the run began, which ``now()`` of its templates tells: the same whoever claims the job,
and behind a pause. ``workload``, ``ctx``, ``args`` and ``results`` have what the templates of the pipeline name, and no
more.

``tasks`` is what :func:`statewright.playbooks.tasks.pipeline_to_document` writes, ``input`` the source of the step's
template, ``loop`` absent outside loops, ``keychain`` the secrets that the tasks name: they are added when the job is
handed out, are in no stored document, and nothing of them may be.

A worker answers with one completion, also for a pipeline that failed; a *failed* job is one that the worker could not
run at all. The completion is

    {"status": "ok", "result": …, "patches": [{"path": ["a", "b"], "value": …}], "results": {label: …}, "log": […]}
    {"status": "error", "error": {"kind": …}, "patches": […], "results": {…}, "log": […]}

``log`` has the events of the run in order, ``{"event": "step.started"}`` or ``loop.iteration.started``, and of its
tasks, each ``{"event": "task.attempt.started", "task": label, "visit": 1, "attempt": 1, …}`` as the event log names
them; ``visit`` counts how often the task was next, attempts apart (1 where it is left out). Patches have been made in
this order, each with the place in the log at which it was made (``at``: how many entries were before it). While
the pipeline runs, a worker may report those it has made by a *progress* report, ``{"patches": [only new ones], "from":
n, "log": [only new entries], "logFrom": m}`` with how many the service has acknowledged before: its answer is
``{"patches": n, "log": m}``. The completion has them all, and as ``logged`` how many entries of the log were
acknowledged; patches that had their effect are told from others by number and value. Over REST a report is ``POST
/v1/jobs/{id}/progress`` with ``{"workerId": …, "progress": {…}}``; 404 says that the service takes none, and 409 that
the run is over for this worker, which may stop.

A pipeline that :func:`choose_job_type` gives no type is run by the service itself
(:func:`statewright.services.playbooks.pipelines.run_pipeline`), with a completion of the same form.

Runs of pipelines as another process is sent them, which compiles their templates for itself, and remembers them.

What one run of a step, or of an element of its loop, is given: its pipeline, and the data as they are now.

The elements of a loop: what the worker of each is given, and what they come to together.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Final, TypeVar, overload

from msgspec import Struct
from msgspec.structs import replace

from statewright.instants import from_rfc3339, to_rfc3339
from statewright.jsonval.codec import encode
from statewright.jsonval.values import JsonObject, JsonValue
from statewright.loop.lru import LruCache
from statewright.net import ElementResult
from statewright.playbooks.context import CTX, EXECUTION, RESULTS, WORKLOAD, get_member
from statewright.playbooks.definition import Credential, Limits, PipelineTask, Playbook, Step
from statewright.playbooks.graph import describe_error
from statewright.playbooks.jinja.compiling import Expression
from statewright.playbooks.jinja.expressions import Path
from statewright.playbooks.tasks import HTTP, list_worker_kinds, pipeline_from_document, pipeline_to_document
from statewright.playbooks.templates import EvaluationContext, InvalidTemplate, Template, compile_template

JOB_PREFIX: Final = "playbook:"
KEYCHAIN: Final = "keychain"
"""The scope, and the member of the payload, that has the credentials."""


def choose_job_type(tasks: Sequence[PipelineTask]) -> str | None:
    """The type under which polling workers find the job: ``playbook:`` and the first kind that the service does not
    run; ``None``: it runs the pipeline. A worker that lacks another kind of it fails that task.
    """
    kinds = list_worker_kinds(tasks)
    return f"{JOB_PREFIX}{kinds[0]}" if kinds else None


class Element(Struct, frozen=True, kw_only=True):
    """The element of a loop."""

    iterator: str
    value: JsonValue
    index: int
    is_last: bool = False
    parent: "JsonObject | None" = None
    """``iter`` of the loop in which the execution itself runs."""

    def to_iter(self) -> JsonObject:
        """``iter`` as it is when the pipeline begins."""
        scope: JsonObject = {
            self.iterator: self.value,
            "index": self.index,
            "_index": self.index,
            "_first": self.index == 0,
            "_last": self.is_last,
        }
        if self.parent is not None:
            scope["parent"] = self.parent
        return scope


class PausedRun(Struct, frozen=True, kw_only=True):
    """Where a run stands that was given back to the service at a task, and is to go on behind it."""

    state: JsonObject
    """Of the pipeline (``pipeline.state_to_document``)."""
    visits: JsonObject = {}
    """How often each task has been next."""
    entries: int = 0
    """Of its log, before it paused."""
    since: int = 0
    """In microseconds of the epoch."""
    outcome: "JsonObject | None" = None
    """Of the task: ``status`` and ``result`` or ``error``; None: it is ok, without a result."""


def pause_to_document(pause: PausedRun) -> JsonObject:
    """As it is stored, and sent."""
    known: JsonObject = {"entries": pause.entries, "since": pause.since, "outcome": pause.outcome}
    return {"state": pause.state, "visits": pause.visits, **known}


def pause_from_document(document: JsonObject) -> PausedRun:
    """What :func:`pause_to_document` wrote."""
    entries, since, outcome = (document.get(name) for name in ("entries", "since", "outcome"))
    return PausedRun(
        state=get_member(document, "state"),
        visits=get_member(document, "visits"),
        entries=entries if isinstance(entries, int) else 0,
        since=since if isinstance(since, int) else 0,
        outcome=outcome if isinstance(outcome, dict) else None,
    )


_UNDATED: Final = EvaluationContext()


class Dispatch(Struct, frozen=True, kw_only=True):
    """One run of a pipeline, and what it can see."""

    tasks: tuple[PipelineTask, ...]
    step: str = ""
    execution_id: str = ""
    step_run: str = ""
    """With the label of a task, the key by which a tool can tell that it is asked again."""
    input: Template | None = None
    workload: JsonObject = {}
    ctx: JsonObject = {}
    args: JsonObject = {}
    results: JsonObject = {}
    element: Element | None = None
    keychain: JsonObject = {}
    max_task_executions: int = Limits().max_task_executions
    pauses: bool = False
    """Whether the run may be given back for a while (:class:`PausedRun`)."""
    resume: PausedRun | None = None
    """Where it goes on; None: at its first task."""
    context: EvaluationContext = _UNDATED
    """Of its templates. The instant is that at which the run began; a turn is never sent."""


class MalformedDispatch(ValueError):
    """A payload that is no run of a pipeline."""


def dispatch_to_document(dispatch: Dispatch) -> JsonObject:
    """The payload of a job."""
    document: JsonObject = {
        "executionId": dispatch.execution_id,
        "at": None if dispatch.context.at is None else to_rfc3339(dispatch.context.at),
        "step": dispatch.step,
        "stepRun": dispatch.step_run,
        "tasks": list(pipeline_to_document(dispatch.tasks)),
        "input": None if dispatch.input is None else dispatch.input.source,
        "workload": dispatch.workload,
        "ctx": dispatch.ctx,
        "args": dispatch.args,
        "results": dispatch.results,
        "keychain": dispatch.keychain,
        "maxTaskExecutions": dispatch.max_task_executions,
    }
    if dispatch.pauses:
        document["pauses"] = True
    if dispatch.resume is not None:
        document["resume"] = pause_to_document(dispatch.resume)
    if (element := dispatch.element) is not None:
        document["loop"] = {
            "iterator": element.iterator,
            "element": element.value,
            "index": element.index,
            "isLast": element.is_last,
            "parent": element.parent,
        }
    return document


class Pipeline(Struct, frozen=True):
    """What of a run was compiled."""

    tasks: tuple[PipelineTask, ...]
    input: Template | None


def compile_pipeline(document: JsonObject) -> Pipeline:
    """That of a payload. Raises :class:`MalformedDispatch`."""
    tasks = document.get("tasks")
    if not isinstance(tasks, list):
        raise MalformedDispatch("tasks must be a list")
    source = document.get("input")
    try:
        return Pipeline(
            pipeline_from_document([task for task in tasks if isinstance(task, dict)]),
            None if source is None else compile_template(source),
        )
    except (InvalidTemplate, ValueError) as error:
        raise MalformedDispatch(str(error)) from error


def dispatch_from_document(document: JsonObject, pipeline: Pipeline | None = None) -> Dispatch:
    """The run that :func:`dispatch_to_document` wrote; ``pipeline`` where that is compiled already. Raises
    :class:`MalformedDispatch`.
    """
    compiled = pipeline or compile_pipeline(document)
    limit, resume = document.get("maxTaskExecutions"), document.get("resume")
    try:
        return Dispatch(
            tasks=compiled.tasks,
            step=_get_text(document, "step"),
            execution_id=_get_text(document, "executionId"),
            step_run=_get_text(document, "stepRun"),
            input=compiled.input,
            workload=get_member(document, "workload"),
            ctx=get_member(document, "ctx"),
            args=get_member(document, "args"),
            results=get_member(document, "results"),
            element=_read_element(document.get("loop")),
            keychain=get_member(document, "keychain"),
            max_task_executions=limit if isinstance(limit, int) else Limits().max_task_executions,
            pauses=document.get("pauses") is True,
            resume=pause_from_document(resume) if isinstance(resume, dict) else None,
            context=EvaluationContext(at=from_rfc3339(_get_text(document, "at"))),
        )
    except ValueError as error:
        raise MalformedDispatch(str(error)) from error


def _read_element(document: JsonValue) -> Element | None:
    if not isinstance(document, dict):
        return None
    index, parent = document.get("index"), document.get("parent")
    return Element(
        iterator=_get_text(document, "iterator"),
        value=document.get("element"),
        index=index if isinstance(index, int) else 0,
        is_last=document.get("isLast") is True,
        parent=parent if isinstance(parent, dict) else None,
    )


def _get_text(document: JsonObject, name: str) -> str:
    value = document.get(name)
    return value if isinstance(value, str) else ""


MAX_SOURCE_BYTES: Final = 4 * 1024 * 1024
"""Of all pipelines that a process remembers."""

R = TypeVar("R")

_compiled: LruCache[bytes, tuple[Pipeline, int]] = LruCache(MAX_SOURCE_BYTES, lambda found: found[1])
"""With the size of its source."""


class SentRun(Struct, frozen=True):
    """The payload of a job (:mod:`statewright.playbooks.dispatch`)."""

    document: JsonObject

    def compute(self, function: Callable[[Dispatch], R]) -> R:
        """What the function makes of the run. Raises ``MalformedDispatch``."""
        source = encode([self.document.get("tasks"), self.document.get("input")])
        key = sha256(source).digest()
        found = _compiled.get(key)
        if found is None:
            found = (compile_pipeline(self.document), len(source))
            _compiled.put(key, found)
        return function(dispatch_from_document(self.document, found[0]))


def send_run(dispatch: Dispatch) -> SentRun:
    """A run as it is sent; what it sees is not copied."""
    return SentRun(dispatch_to_document(dispatch))


PARENT_ITER: Final = "iter"
"""The member of what the execution is that has ``iter`` of the element that awaits it."""


def build_dispatch(
    playbook: Playbook,
    step: Step,
    data: JsonObject,
    given: JsonObject,
    *,
    run: str = "",
    element: int | None = None,
    context: EvaluationContext = _UNDATED,
) -> Dispatch:
    """The dispatch of a run. ``given`` is its input as the kernel keeps it: ``args``, of an element its ``item``;
    ``context`` has the instant at which it began.
    """
    return Dispatch(
        tasks=step.tasks,
        step=step.name,
        execution_id=str(get_member(data, EXECUTION).get("id")),
        step_run=run,
        input=step.input,
        workload=get_member(data, WORKLOAD),
        ctx=get_member(data, CTX),
        args=get_member(given, "args"),
        results=get_member(data, RESULTS),
        element=_build_element(step, data, given, element),
        max_task_executions=playbook.limits.max_task_executions,
        context=context,
    )


NARROWED: Final = (WORKLOAD, CTX, RESULTS, "args")
"""The scopes of which a job has what its templates name."""


class Needs(Struct, frozen=True, kw_only=True):
    """What the templates of a pipeline name of the scopes that are the same for others."""

    whole: frozenset[str] = frozenset()
    """Scopes that are named without a member, or with one that is computed."""
    members: Mapping[str, frozenset[str]] = {}
    """Of all other scopes the members that are named, and all that is named bare."""


def find_needs(step: Step) -> Needs:
    """What the pipeline of a step needs: all of it where a member is sent what the run sees."""
    if any("attach" in task.source for task in step.tasks):
        return Needs(whole=frozenset(NARROWED))
    paths = {path for _, expression in _list_expressions(step) for path in expression.paths}
    bare = {path[0] for path in paths if path[0] not in NARROWED}
    named = {scope: {path[1] for path in paths if path[0] == scope and len(path) > 1} for scope in NARROWED}
    return Needs(
        whole=frozenset(scope for scope in NARROWED if (scope,) in paths),
        members={
            scope: frozenset(bare if scope == CTX else bare | members) | members for scope, members in named.items()
        },
    )


def _list_expressions(step: Step) -> Iterator[tuple[str, Expression]]:
    templates = [task.fields for task in step.tasks]
    policies = [task.policy for task in step.tasks if task.policy is not None]
    actions = [action for policy in policies for action in policy.actions]
    templates += [one.value for action in actions for one in action.set]
    templates += [action.delay for action in actions if action.delay is not None]
    for template in (*templates, *([] if step.input is None else [step.input])):
        yield from template.list_expressions()
    for rule in (rule for policy in policies for rule in policy.rules):
        yield from () if rule.when is None else rule.when.list_expressions()


def narrow(dispatch: Dispatch, needs: Needs) -> Dispatch:
    """A run that sees no more than it needs: what is sent to workers, and kept with them, is no larger."""
    scopes = {WORKLOAD: dispatch.workload, CTX: dispatch.ctx, RESULTS: dispatch.results, "args": dispatch.args}
    for scope, members in needs.members.items():
        if scope not in needs.whole:
            value = scopes[scope]
            scopes[scope] = {name: value[name] for name in value.keys() & members}
    return replace(dispatch, workload=scopes[WORKLOAD], ctx=scopes[CTX], results=scopes[RESULTS], args=scopes["args"])


class NeededCredential(Struct, frozen=True, kw_only=True):
    """A credential that a run of a step is given."""

    credential: Credential
    is_required: bool
    """The run cannot begin without. Else a tool names it of which its worker may have a credential of its own."""


def find_credentials(playbook: Playbook, step: Step) -> tuple[NeededCredential, ...]:
    """What of the keychain the pipeline of a step names: all of it where a name is computed."""
    every = frozenset(credential.name for credential in playbook.keychain)
    required, lent = set[object](), set[object]()
    for task in step.tasks if every else ():
        paths = _list_secret_paths(task)
        required |= every if (KEYCHAIN,) in paths else {path[1] for path in paths}
        if isinstance(auth := task.source.get("auth"), str):
            named = required if task.kind == HTTP else lent
            named |= every if "{{" in auth or "{%" in auth else {auth}
        elif isinstance(auth, dict):  # {pg: {type: postgres, key: name}}, as public playbooks have it
            inner = [value for value in auth.values() if isinstance(value, dict)]
            lent |= {text for one in (auth, *inner) for text in one.values() if isinstance(text, str)}
    return tuple(
        NeededCredential(credential=credential, is_required=credential.name in required)
        for credential in playbook.keychain
        if credential.name in required or credential.name in lent
    )


def has_secrets(task: PipelineTask) -> bool:
    """Whether the rendered fields of a task may hold some."""
    return bool(_list_secret_paths(task))


def _list_secret_paths(task: PipelineTask) -> set[Path]:
    expressions = (expression for _, expression in task.fields.list_expressions())
    return {path for expression in expressions for path in expression.paths if path[0] == KEYCHAIN}


def _build_element(step: Step, data: JsonObject, given: JsonObject, index: int | None) -> Element | None:
    if step.loop is None or index is None:
        return None
    parent = get_member(data, EXECUTION).get(PARENT_ITER)
    return Element(
        iterator=step.loop.iterator,
        value=given.get("item"),
        index=index,
        is_last=given.get("isLast") is True,
        parent=parent if isinstance(parent, dict) else None,
    )


class Elements(Sequence[JsonValue]):
    """The elements of the input of a loop, made when they are asked for: there may be very many."""

    def __init__(self, loop_input: JsonValue) -> None:
        given = loop_input if isinstance(loop_input, dict) else {}
        items = given.get("items")
        self._items = items if isinstance(items, list) else []
        self._args = given.get("args")

    def __len__(self) -> int:
        return len(self._items)

    @overload
    def __getitem__(self, index: int) -> JsonValue: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[JsonValue]: ...

    def __getitem__(self, index: int | slice) -> "JsonValue | Sequence[JsonValue]":
        if isinstance(index, slice):
            return [self[each] for each in range(*index.indices(len(self)))]
        return {
            "args": self._args,
            "item": self._items[index],
            "index": index,
            "isLast": index == len(self._items) - 1,
        }


def summarize_elements(total: int, results: Sequence[ElementResult]) -> JsonObject:
    """The payload of the end of a loop: counts, results in their order, and errors by the number of the element."""
    values: list[JsonValue] = [None] * total
    errors: JsonObject = {}
    for result in results:
        value = result.payloads[0] if result.payloads else None
        if result.outcome == "FAILED":
            errors[str(result.element)] = describe_error(value)
        else:
            values[result.element] = value
    return {
        "total": total,
        "succeeded": len(results) - len(errors),
        "failed": len(errors),
        "results": values,
        "errors": errors,
    }
