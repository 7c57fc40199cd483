"""Tasks of pipelines: the forms in which they may be written, the workbook, and their effective configuration.

Who does tasks, by their kinds (docs/reference/executions.md#task-kinds).

Tasks of the kind ``wait`` (docs/reference/executions.md#task-kinds).
"""

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from statewright.instants import parse_instant
from statewright.jsonval.values import JsonObject, is_number, is_whole, merge_deep
from statewright.playbooks.definition import PipelineTask
from statewright.playbooks.place import Findings, InvalidPlaybook, Place
from statewright.playbooks.policies import read_task_policy

HTTP: Final = "http"
SERVICE_KINDS: Final = frozenset((HTTP, "noop", "playbook", "wait"))
"""Kinds of tasks that the service runs itself. Of these a worker, too, runs ``http``, ``noop`` and ``wait`` within a
pipeline of its own.
"""
COMPUTE: Final = "compute"
"""The kind of tasks that say which calculation members do them; one without ``tags`` is as those of other kinds."""
PLAYBOOK: Final = "playbook"
"""The kind of tasks that are other playbooks."""


def list_worker_kinds(tasks: Sequence[PipelineTask]) -> tuple[str, ...]:
    """The kinds of a pipeline that the service does not run, each once. Empty: the service runs the pipeline itself."""
    return tuple(dict.fromkeys(task.kind for task in tasks if not is_run_here(task)))


def is_run_here(task: PipelineTask) -> bool:
    """Whether the service does a task, or has members do it, where all tasks of its pipeline are such."""
    return task.kind in SERVICE_KINDS or is_for_members(task)


def is_for_members(task: PipelineTask) -> bool:
    """Whether a task says which calculation members do it."""
    return task.kind == COMPUTE and "tags" in task.source


MAX_TASKS: Final = 100
"""Of one pipeline."""
WORKBOOK: Final = "workbook"
"""The kind of a task that is a template of the workbook."""

_NO_FIELDS: Final = ("desc", "kind", "name", "spec")
_HINTS: Final[Mapping[str, str]] = {
    "eval": "is no member of a task; expected conditions in spec.policy.rules",
    "expr": "is not known; expected conditions in when",
}


class TaskContext(Struct, frozen=True, kw_only=True):
    """What the tasks of a step are read with."""

    spec: JsonObject
    """The configuration of executor, step and loop, merged."""
    workbook: Mapping[str, JsonObject] = {}
    disabled_kinds: frozenset[str] = frozenset()
    """Of pipelines that the service runs itself; workers do in theirs what they can."""


class _Written(Struct, frozen=True, kw_only=True):
    """A task as it stands in the document, with the templates of the workbook filled in."""

    place: Place
    label: str
    members: JsonObject


def read_tasks(tool: Place, step: str, context: TaskContext) -> tuple[PipelineTask, ...]:
    """``tool`` of a step: one task, or a list of them."""
    written = [_fill_in(task, context) for task in _list_written(tool, step)]
    labels = tuple(task.label for task in written)
    seen: set[str] = set()
    for task in written:
        if task.label in seen:
            task.place.refuse(f"has the label {task.label!r} of a task before it; labels are unique in a step")
        seen.add(task.label)
    tasks = tuple(_read_task(task, labels, index, context) for index, task in enumerate(written))
    if not list_worker_kinds(tasks):
        for task in written:
            _refuse_disabled(task.place.get("kind"), context)
    return tasks


def _refuse_disabled(kind: Place, context: TaskContext) -> None:
    if isinstance(kind.value, str) and kind.value in context.disabled_kinds:
        kind.refuse(f"must be another kind: {kind.value} is disabled here (STATEWRIGHT_PLAYBOOKS_REQUESTS)")


def _list_written(tool: Place, step: str) -> list[_Written]:
    if tool.is_absent:
        return []
    if isinstance(tool.value, dict):
        return [_Written(place=tool, label=_read_label(tool, f"{step}_task"), members=tool.value)]
    items = list(tool.list_items("a task, or a list of tasks"))
    if len(items) > MAX_TASKS:
        tool.refuse(f"has {len(items)} tasks; at most {MAX_TASKS} are allowed")
    if not items and isinstance(tool.value, list):
        tool.refuse("has no task; leave tool out where there is none")
    return [found for index, item in enumerate(items[:MAX_TASKS]) if (found := _read_entry(item, index)) is not None]


def _read_entry(item: Place, index: int) -> _Written | None:
    """``{name, kind, …}``, ``{kind, …}`` or the older ``{label: {kind, …}}``."""
    if not isinstance(item.value, dict):
        item.expect("a mapping with kind")
        return None
    if len(item.value) == 1 and not item.has("kind") and not item.has("name"):
        (label,) = item.value
        inner = item.get(label)
        if isinstance(inner.value, dict):
            return _Written(place=inner, label=_read_label(inner, label), members=inner.value)
    return _Written(place=item, label=_read_label(item, f"task_{index}"), members=item.value)


def _read_label(place: Place, default: str) -> str:
    name = place.get("name")
    return default if name.is_absent else name.read_name("a label") or default


def _fill_in(task: _Written, context: TaskContext) -> _Written:
    """A template of the workbook with what its use adds; members at the use win, ``spec`` is merged."""
    if task.members.get("kind") != WORKBOOK:
        return task
    chosen = task.place.get("task")
    template = context.workbook.get(chosen.value) if isinstance(chosen.value, str) else None
    if template is None:
        known = ", ".join(sorted(context.workbook))[:200] or "none"
        chosen.refuse(f"must be the name of a task of the workbook; there are {known}")
        return _Written(place=task.place, label=task.label, members={**task.members, "kind": "noop"})
    use = {name: member for name, member in task.members.items() if name not in ("kind", "task")}
    members = {**template, **use}
    spec, own = template.get("spec"), use.get("spec")
    if isinstance(spec, dict) and isinstance(own, dict):
        members["spec"] = merge_deep(spec, own)
    return _Written(place=Place(members, task.place.path, task.place.findings), label=task.label, members=members)


def _read_task(task: _Written, labels: tuple[str, ...], index: int, context: TaskContext) -> PipelineTask:
    place, members = task.place, task.members
    for name, hint in _HINTS.items():
        if name in members:
            place.get(name).refuse(hint)
    kind = place.get("kind").read_name("the kind of the task") or "noop"
    fields = {name: member for name, member in members.items() if name not in _NO_FIELDS}
    if "args" in fields:
        if "input" in fields:
            place.get("args").refuse("means the same as input; expected one of them")
        fields["input"] = fields.pop("args")
    spec = place.get("spec").read_mapping()
    policy = spec.get("policy")
    effective = merge_deep(context.spec, {name: member for name, member in spec.items() if name != "policy"})
    source: JsonObject = {"name": task.label, "kind": kind, **fields, "spec": {**effective, "policy": policy}}
    if policy is None:
        source["spec"] = effective
    return PipelineTask(
        label=task.label,
        kind=kind,
        fields=Place(fields, place.path, place.findings).read_template(statements=True),
        policy=read_task_policy(place.get("spec").get("policy"), labels, index),
        spec=effective,
        source=source,
    )


def pipeline_to_document(tasks: Sequence[PipelineTask]) -> list[JsonObject]:
    """A pipeline as a worker is given it."""
    return [task.source for task in tasks]


def pipeline_from_document(document: Sequence[JsonObject]) -> tuple[PipelineTask, ...]:
    """The pipeline that :func:`pipeline_to_document` wrote. Raises :class:`InvalidPlaybook`."""
    findings = Findings()
    tool = Place(list(document), "/tool", findings)
    tasks = read_tasks(tool, "", TaskContext(spec={})) if document else ()
    if findings.errors:
        raise InvalidPlaybook(tuple(findings.errors))
    return tasks


WAIT: Final = "wait"
PAUSING: Final = (PLAYBOOK, WAIT)
"""The kinds of tasks for which a run is given back to the service: nobody has it until they are done."""
MAX_WAIT_S: Final = 10 * 366 * 24 * 60 * 60
_US_PER_S: Final = 1_000_000
_MAX_VERSION: Final = 2**31 - 1


def find_child_mistake(fields: JsonObject) -> tuple[str, str] | None:
    """The field of a task that awaits another playbook which cannot be used, and what it must be; ``None``: all can."""
    path, version = fields.get("path"), fields.get("version")
    workload = "args" if "args" in fields else "input"
    if not isinstance(path, str) or not path:
        return "path", "must be a text"
    if version is not None and not (is_whole(version) and version <= _MAX_VERSION):
        return "version", "must be a whole number: that of the definition"
    if not isinstance(fields.get(workload), dict | None):
        return workload, "must be an object"
    return None


def find_due(fields: JsonObject, since: int) -> int | str:
    """When a wait that began ``since`` is over, in epoch microseconds; a text says what is wrong with its fields."""
    seconds, until = fields.get("seconds"), fields.get("until")
    if (seconds is None) == (until is None):
        return "a wait has either seconds or until"
    if until is not None:
        if not isinstance(until, str):
            return "until must be an instant, as 2026-06-01T09:30:00Z"
        try:
            return parse_instant(until)
        except ValueError:
            return "until must be an instant, as 2026-06-01T09:30:00Z"
    if not is_number(seconds) or not 0 <= seconds <= MAX_WAIT_S:
        return f"seconds must be a number from 0 to {MAX_WAIT_S}"
    return since + int(seconds * _US_PER_S)
