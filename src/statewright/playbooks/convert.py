"""Playbooks in the older public forms, in the form of today (docs/reference/playbooks.md#older-forms).

A document goes in, and a document comes out, with what was changed, and what could not be. Nothing is left out in
silence: a member that is not understood stays where it was, and is found when the outcome is read, or is named here.
A document without errors comes back as it is. All of it is pure.
"""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from statewright.jsonval.values import JsonObject, JsonValue, is_number
from statewright.playbooks.context import get_member
from statewright.playbooks.convert_names import (
    OUTCOME_NAMES,
    POLICY_NAMES,
    PREVIOUS_NAMES,
    list_own_names,
    list_variables,
    read_expression,
    rename,
)
from statewright.playbooks.convert_routes import convert_routes, join_assignments, read_assignments
from statewright.playbooks.documents import InvalidDocument, read_document
from statewright.playbooks.place import Finding, Findings, Place
from statewright.playbooks.reading import API_VERSIONS, KIND, read_playbook
from statewright.playbooks.steps import MEMBERS
from statewright.playbooks.tasks import HTTP, WORKBOOK


class Change(Struct, frozen=True, kw_only=True, order=True):
    """Where an older form stood: a JSON pointer into the document that was given, and the form in a few words."""

    path: str
    form: str


class Conversion(Struct, frozen=True, kw_only=True):
    """What came of a document."""

    document: JsonObject
    """In the form of today, as far as it could be converted; empty if the text is none."""
    changes: tuple[Change, ...] = ()
    """In the order in which they were made; none for a document without errors."""
    errors: tuple[Finding, ...] = ()
    """What could not be converted, with pointers into the document that was given."""
    warnings: tuple[Finding, ...] = ()
    """What was converted and may mean something else, likewise."""


def convert_playbook(text: "bytes | str | JsonObject") -> Conversion:
    """Convert a playbook. It costs at most about as much as reading one twice."""
    findings = Findings()
    try:
        document = text if isinstance(text, dict) else read_document(text)
    except InvalidDocument as refused:
        return Conversion(document={}, errors=(Finding(path=refused.path, message=str(refused)),))
    if not read_playbook(document).errors:
        return Conversion(document=document)
    converter = _Converter(Place(document, "", findings))
    converted = converter.convert()
    return Conversion(
        document=converted,
        changes=tuple(converter.changes),
        errors=tuple(findings.errors),
        warnings=tuple(findings.warnings),
    )


def is_playbook(document: JsonObject) -> bool:
    """Whether a document says that it is a playbook, or has a workflow; credentials and the like do neither."""
    return "workflow" in document or document.get("kind") == KIND


_OF_METADATA: Final = ("name", "path", "version", "description", "desc", "tags", "labels")
"""Members that older documents have at the top."""
_MOVED: Final = ("case", "collection", "element", "in", "iterator", "mode", "retry", "save", "set_ctx", "sink", "type")
_OF_STEP: Final = frozenset((*MEMBERS, *_MOVED, "vars", "when")) - {"input"}
"""Members of a step that are never fields of its tool."""
_INPUTS: Final = ("args", "input", "with")
_NO_TOOL: Final = ("end", "start")
"""Types of older steps that do nothing."""
_ITERATORS: Final = ("iterator", "loop")
_PARALLEL: Final = ("async", "concurrent")
_CONSTANT: Final = ("constant", "fixed")
_LOOP_NAMES: Final[Mapping[str, str]] = {
    "collection": "in",
    "concurrency": "max_in_flight",
    "element": "iterator",
    "expr": "in",
    "item": "iterator",
    "items": "in",
    "max_concurrent": "max_in_flight",
}
_TASK_REFUSALS: Final[Mapping[str, str]] = {
    "case": "is no member of a task; expected conditions in spec.policy.rules",
    "loop": "is no member of a task; expected loop of the step",
    "next": "is no member of a task; expected next of the step",
    "vars": "is no member of a task; expected set of the step",
    "when": "is no member of a task; expected a step with spec.policy.admit, or an arc with when",
}
_RETRY: Final[Mapping[str, str]] = {
    "attempts": "attempts",
    "delay": "delay",
    "initial_delay": "delay",
    "max_attempts": "attempts",
}
_RETRY_CONDITIONS: Final = ("retry_when", "when")


class _Converter:
    """The conversion of one document, place by place."""

    def __init__(self, root: Place) -> None:
        self.changes = list[Change]()
        self._root = root
        self._known = list_own_names(root.read_mapping())

    def _note(self, place: Place, form: str) -> None:
        self.changes.append(Change(path=place.path, form=form))

    def convert(self) -> JsonObject:
        """The document as it is written today."""
        source, written = self._root, dict[str, JsonValue]()
        for name in source.read_mapping():
            place = source.get(name)
            if name == "metadata" or name in _OF_METADATA:
                if "metadata" not in written:
                    written["metadata"] = self._convert_metadata()
            elif name == "apiVersion" and place.value not in API_VERSIONS and str(place.value).startswith("noetl.io/"):
                self._note(place, f"apiVersion {place.value}")
                written[name] = API_VERSIONS[0]
            elif name == "workbook":
                written[name] = self._convert_workbook(place)
            elif name == "workflow" and isinstance(place.value, list):
                written[name] = [self._convert_step(step) for step in place.list_items()]
            elif name == "vars" and self._list_initial():
                self._note(place, "vars of the playbook")
            else:
                written[name] = place.value
        return self._move_variables(written)

    def _convert_metadata(self) -> JsonValue:
        source = self._root.get("metadata")
        if not source.is_absent and not isinstance(source.value, dict):
            return source.value
        written = dict(source.read_mapping())
        for name in _OF_METADATA:
            place = self._root.get(name)
            if place.is_absent:
                continue
            self._note(place, f"{name} outside metadata")
            target = "description" if name == "desc" else name
            if target in written:
                place.refuse(f"is in metadata, too; expected metadata.{target} alone")
            written.setdefault(target, place.value)
        path = written.get("path")
        if "name" not in written and isinstance(path, str) and path.strip("/"):
            self._note(source, "metadata without name")
            written = {"name": path.strip("/").rpartition("/")[2], **written}
        return written

    def _move_variables(self, written: JsonObject) -> JsonObject:
        """``vars`` of the playbook to ``workload``, and what templates call them."""
        initial, workload = self._list_initial(), self._root.get("workload").value
        if initial:
            own = workload if isinstance(workload, dict) else {}
            for name in own.keys() & initial.keys():
                self._root.get("vars").get(name).refuse("is a member of workload, too; expected another name")
            written = {**written, "workload": {**initial, **own}}
            _reorder(written, "workload", before=("executor", "keychain", "workbook", "workflow"))
        variables = list_variables(self._root.read_mapping(), initial)
        renamed = rename(written, variables, self._known) if variables else written
        assert isinstance(renamed, dict)  # noqa: S101 - a mapping stays one
        if renamed != written:
            self._note(self._root.get("workflow"), "vars in templates")
        return renamed

    def _list_initial(self) -> JsonObject:
        """``vars`` of the playbook, where they can become members of ``workload``."""
        initial, workload = self._root.get("vars").value, self._root.get("workload").value
        return initial if isinstance(initial, dict) and isinstance(workload, dict | None) else {}

    def _convert_workbook(self, place: Place) -> JsonValue:
        """``{tasks: {name: task}}`` or a list of ``{name, tool}``; in older ones the task is beside the name."""
        if isinstance(place.value, dict):
            if "tasks" not in place.value:
                self._note(place, "workbook without tasks")
                return {"tasks": {name: self._convert_template(place.get(name)) for name in place.value}}
            tasks = place.get("tasks")
            converted = {name: self._convert_template(tasks.get(name)) for name in tasks.read_mapping()}
            return {**place.value, "tasks": converted}
        if not isinstance(place.value, list):
            return place.value
        return [self._convert_entry(item) for item in place.list_items()]

    def _convert_entry(self, item: Place) -> JsonValue:
        if not isinstance(item.value, dict):
            return item.value
        if isinstance(item.value.get("tool"), dict):
            return {**item.value, "tool": self._convert_template(item.get("tool"))}
        self._note(item, "task beside its name in the workbook")
        members = {name: value for name, value in item.value.items() if name not in ("name", "desc")}
        tasks = self._convert_task(Place(members, item.path, item.findings))
        return {"name": item.value.get("name"), "tool": self._get_only(tasks, item)}

    def _convert_template(self, place: Place) -> JsonValue:
        return self._get_only(self._convert_task(place), place)

    def _get_only(self, tasks: list[JsonValue], place: Place) -> JsonValue:
        if len(tasks) > 1:
            place.refuse("stores its result; expected a task for that behind each use of this one")
        return tasks[0]

    # steps

    def _convert_step(self, place: Place) -> JsonValue:
        if not isinstance(place.value, dict):
            return place.value
        kind, fields = self._split_tool(place)
        step = {name: value for name, value in place.value.items() if name not in fields}
        tasks = self._convert_tool(place, kind, fields)
        self._move_loop(place, step, kind)
        self._move_input(place, step, tasks)
        self._move_retry(place, step, tasks)
        stores = self._take_store(place, step)
        if stores and len(tasks) == 1 and isinstance(tasks[0], dict) and "kind" in tasks[0]:
            named: JsonObject = {"name": f"{step.get('step')}_task", **tasks[0]}
            tasks[0] = named
        tasks += stores
        self._move_assignments(place, step)
        self._move_guard(place, step)
        self._move_routes(place, step)
        if kind is not None:
            step.pop("type" if place.get("tool").is_absent else "tool")
        if not tasks:
            return step
        is_one = len(tasks) == 1 and not isinstance(place.get("tool").value, list)
        tool: JsonValue = tasks[0] if is_one else [*tasks]
        step["tool"] = tool
        _reorder(step, "tool", before=("set", "next"))
        return step

    def _split_tool(self, place: Place) -> tuple[str | None, JsonObject]:
        """The kind of a step whose tool is only named, and the members of the step that are fields of its task."""
        tool, kind = place.get("tool"), place.get("type")
        named = tool if isinstance(tool.value, str) else kind if tool.is_absent else None
        if named is None or not isinstance(named.value, str):
            return None, {}
        self._note(named, "tool as text" if named is tool else "type of a step")
        return named.value, {name: value for name, value in place.read_mapping().items() if name not in _OF_STEP}

    def _convert_tool(self, place: Place, kind: str | None, fields: JsonObject) -> list[JsonValue]:
        tool = place.get("tool")
        if kind is None:
            items = list(tool.list_items()) if isinstance(tool.value, list) else [] if tool.is_absent else [tool]
            return [task for item in items for task in self._convert_task(item)]
        if kind in _NO_TOOL:
            for name in fields:
                place.get(name).refuse(f"is not understood in a step of type {kind}; expected the fields in a tool")
            return []
        if kind in _ITERATORS:
            return self._convert_body(place, fields)
        return self._convert_task(Place({"kind": kind, **fields}, place.path, place.findings))

    def _convert_body(self, place: Place, fields: JsonObject) -> list[JsonValue]:
        """What an older step of type ``iterator`` does for each element."""
        body = place.get("task")
        for name in fields:
            if name != "task":
                place.get(name).refuse("is not understood in an iterator; expected collection, element, mode and task")
        if not isinstance(body.value, dict):
            body.expect("the task that is done for each element")
            return []
        return self._convert_task(body)

    def _move_loop(self, place: Place, step: JsonObject, kind: str | None) -> None:
        loop = place.get("loop")
        members: Mapping[str, JsonValue]
        if isinstance(loop.value, dict):
            members = loop.value
        elif not loop.is_absent:
            self._note(loop, "loop as a list")
            members = {"in": loop.value, "iterator": "item"}
        elif kind in _ITERATORS or "in" in step:
            self._note(place, "loop beside the tool")
            members = {
                name: step.pop(name) for name in ("in", "collection", "iterator", "element", "mode") if name in step
            }
        else:
            return
        source, own = place if loop.is_absent else loop, members.get("spec")
        Place({**members}, source.path, place.findings).refuse_synonyms(_LOOP_NAMES)
        written, spec = dict[str, JsonValue](), dict[str, JsonValue]()
        for name, value in members.items():
            target = _LOOP_NAMES.get(name, name)
            if target in ("mode", "max_in_flight"):
                spec[target] = "parallel" if value in _PARALLEL else value
            elif name != "spec":
                written[target] = value
            if target != name or target in ("mode", "max_in_flight"):
                self._note(source.get(name), f"{name} of a loop")
                if isinstance(own, dict) and target in own:
                    source.get(name).refuse(f"stands in spec, too; expected spec.{target} alone")
        spec |= own if isinstance(own, dict) else {}
        step["loop"] = {**written, **({"spec": spec} if spec else {})}
        if not isinstance(loop.value, dict):
            _reorder(step, "loop", before=("tool", "set", "next", "type"))

    def _move_input(self, place: Place, step: JsonObject, tasks: list[JsonValue]) -> None:
        """``args`` or ``with`` of a step beside its tool: what its only task is given."""
        for name in ("args", "with"):
            if name not in step:
                continue
            task = tasks[0] if len(tasks) == 1 else None
            if not isinstance(task, dict) or any(member in task for member in _INPUTS):
                place.get(name).refuse("is no member of a step; expected input of each task that needs it")
                continue
            self._note(place.get(name), f"{name} of a step")
            task["input"] = step.pop(name)

    def _move_retry(self, place: Place, step: JsonObject, tasks: list[JsonValue]) -> None:
        if "retry" not in step:
            return
        if len(tasks) != 1 or not isinstance(tasks[0], dict):
            place.get("retry").refuse("is of the whole step; expected do: retry in spec.policy.rules of each task")
        elif self._add_retry(place.get("retry"), tasks[0]):
            step.pop("retry")

    def _add_retry(self, place: Place, task: JsonObject) -> bool:
        """Put a rule before those of a task. False: it is none."""
        if not isinstance(place.value, dict):
            place.refuse("cannot be converted; expected do: retry in spec.policy.rules of the task")
            return False
        place.refuse_synonyms({**_RETRY, "backoff_multiplier": "backoff"})
        conditions, then = ["outcome.status == 'error'"], dict[str, JsonValue]({"do": "retry"})
        for name, value in place.value.items():
            member = place.get(name)
            if name in _RETRY:
                then[_RETRY[name]] = value
            elif name in (*_RETRY_CONDITIONS, "stop_when") and (read := read_expression(value)) is not None:
                conditions.append(f"not ({read})" if name == "stop_when" else f"({read})")
            elif name == "retryable_status_codes" and isinstance(value, list) and all(map(is_number, value)):
                conditions.append(f"outcome.http.status in {[int(code) for code in value if is_number(code)]}")
            elif name in ("backoff", "backoff_multiplier"):
                self._read_backoff(member, then)
            else:
                member.refuse("cannot be converted; expected attempts, delay, backoff and conditions in a rule")
        rule = rename({"when": "{{ " + " and ".join(conditions) + " }}", "then": then}, POLICY_NAMES, self._known)
        spec = task.get("spec")
        policy = spec.get("policy") if isinstance(spec, dict) else None
        rules = policy.get("rules") if isinstance(policy, dict) else None
        others = {**policy} if isinstance(policy, dict) else {}
        task["spec"] = {
            **(spec if isinstance(spec, dict) else {}),
            "policy": {**others, "rules": [rule, *(rules if isinstance(rules, list) else [])]},
        }
        self._note(place, "retry")
        return True

    def _read_backoff(self, place: Place, then: JsonObject) -> None:
        value = place.value
        if value == 1 or value in _CONSTANT:
            then["backoff"] = "none"
            then.setdefault("delay", 1)
        elif value == 2:
            then["backoff"] = "exponential"
        elif isinstance(value, str):
            then["backoff"] = value
        else:
            place.refuse("multiplies the pause by another number than 1 or 2; expected backoff in a rule")

    def _take_store(self, place: Place, step: JsonObject) -> list[JsonValue]:
        """``sink`` or ``save`` of a step or task: a task behind it."""
        tasks = list[JsonValue]()
        for name in ("sink", "save"):
            if name not in step:
                continue
            told = place.get(name)
            inner = told.get("tool") if isinstance(told.get("tool").value, dict) else told
            members = dict(inner.read_mapping())
            for other in [] if inner is told else told.read_mapping().keys() - {"tool"}:
                told.get(other).refuse("is not understood beside tool; expected it in tool")
            if "storage" in members:
                members["kind"] = members.pop("storage")
            if isinstance(members.get("kind"), dict) or not (members.keys() & {"kind", "tool", "type"}):
                told.refuse("cannot be converted; expected a task behind that of the step")
                continue
            self._note(told, name)
            told.warn(
                "is a task now: the result of the step is what it answers; expected results.LABEL for that before"
            )
            step.pop(name)
            renamed = rename(members, PREVIOUS_NAMES, self._known)
            assert isinstance(renamed, dict)  # noqa: S101 - a mapping stays one
            tasks += self._convert_task(Place({"name": name, **renamed}, inner.path, place.findings))
        return tasks

    def _move_assignments(self, place: Place, step: JsonObject) -> None:
        for name in ("vars", "set_ctx"):
            if not isinstance(step.get(name), dict) or not isinstance(step.get("set"), dict | None):
                continue
            self._note(place.get(name), f"{name} of a step")
            assigned = rename(read_assignments(place.get(name)), OUTCOME_NAMES, self._known)
            step.pop(name)
            assert isinstance(assigned, dict)  # noqa: S101 - a mapping stays one
            step["set"] = join_assignments(place.get(name), assigned, get_member(step, "set"))
            _reorder(step, "set", before=("next",))

    def _move_guard(self, place: Place, step: JsonObject) -> None:
        """``when`` of a step: a token for which it does not hold ends there."""
        if "when" not in step:
            return
        when, spec = step.pop("when"), step.get("spec")
        policy = spec.get("policy") if isinstance(spec, dict) else None
        if isinstance(policy, dict) and "admit" in policy:
            step["when"] = when
            place.get("when").refuse("stands beside spec.policy.admit; expected the condition in its rules")
            return
        self._note(place.get("when"), "when of a step")
        rules: list[JsonValue] = [{"when": when, "then": {"allow": True}}, {"else": {"then": {"allow": False}}}]
        admit: JsonObject = {"on_deny": "discard", "rules": rules}
        step["spec"] = {
            **(spec if isinstance(spec, dict) else {}),
            "policy": {**(policy if isinstance(policy, dict) else {}), "admit": admit},
        }
        _reorder(step, "spec", before=("loop", "tool", "type", "set", "next"))

    def _move_routes(self, place: Place, step: JsonObject) -> None:
        spec, mode = step.get("spec"), None
        if isinstance(spec, dict) and "next_mode" in spec:
            self._note(place.get("spec").get("next_mode"), "spec.next_mode")
            mode = spec["next_mode"]
            step["spec"] = {name: value for name, value in spec.items() if name != "next_mode"}
            if not step["spec"]:
                step.pop("spec")
        router = place.get("next")
        if not place.get("case").is_absent:
            self._note(place.get("case"), "case")
        if not router.is_absent and not (isinstance(router.value, dict) and "arcs" in router.value):
            self._note(router, "next as " + ("a list" if isinstance(router.value, list) else "one step"))
        routes = convert_routes(place, mode, self._known)
        step.pop("case", None)
        step.pop("next", None)
        if routes is not None:
            step["next"] = routes

    # tasks

    def _convert_task(self, place: Place) -> list[JsonValue]:
        """A task, and those that store what it comes to."""
        if not isinstance(place.value, dict):
            return [place.value]
        inner = next(iter(place.value.values())) if len(place.value) == 1 else None
        if isinstance(inner, dict) and not place.has("kind"):
            (label,) = place.value
            return [
                {label: task} if not index else task for index, task in enumerate(self._convert_task(place.get(label)))
            ]
        task = dict(place.value)
        for name in ("type", "tool"):
            if isinstance(task.get(name), str) and "kind" not in task:
                self._note(place.get(name), f"{name} of a task")
                task = {("kind" if member == name else member): value for member, value in task.items()}
        if task.get("kind") == WORKBOOK and "task" not in task and "name" in task:
            self._note(place.get("name"), "name of a task of the workbook")
            task["task"] = task.pop("name")
        if "with" in task:
            self._convert_with(place, task)
        if task.get("kind") == HTTP:
            self._convert_request(place, task)
        self._convert_policy(place, task)
        if "retry" in task and self._add_retry(place.get("retry"), task):
            task.pop("retry")
        stores = self._take_store(place, task)
        for name in task.keys() & _TASK_REFUSALS.keys():
            place.get(name).refuse(_TASK_REFUSALS[name])
        return [task, *stores]

    def _convert_with(self, place: Place, task: JsonObject) -> None:
        if any(name in task for name in ("args", "input")):
            place.get("with").refuse("means the same as args and input; expected one of them")
            return
        self._note(place.get("with"), "with of a task")
        task["args"] = task.pop("with")

    def _convert_request(self, place: Place, task: JsonObject) -> None:
        """Fields of HTTP tasks: ``endpoint``, ``data``, and ``timeout`` as a number."""
        if "endpoint" in task and "url" not in task:
            self._note(place.get("endpoint"), "endpoint of an http task")
            task["url"] = task.pop("endpoint")
        data = task.get("data")
        if "data" in task and not task.keys() & {"body", "payload"}:
            self._note(place.get("data"), "data of an http task")
            task.pop("data")
            if isinstance(data, dict) and data and data.keys() <= {"body", "query"}:
                task |= {"params" if name == "query" else name: value for name, value in data.items()}
            else:
                task["body"] = data
        timeout = task.get("timeout")
        if is_number(timeout):
            self._note(place.get("timeout"), "timeout as a number")
            task["timeout"] = {"read": timeout}

    def _convert_policy(self, place: Place, task: JsonObject) -> None:
        """``eval`` of a task, and rules with older members."""
        spec = task.get("spec")
        policy = spec.get("policy") if isinstance(spec, dict) else None
        rules = place.get("spec").get("policy").get("rules")
        source, form = (place.get("eval"), "eval of a task") if "eval" in task else (rules, "")
        if not isinstance(source.value, list):
            return
        if source is not rules:
            if isinstance(policy, dict) and "rules" in policy:
                source.refuse("stands beside spec.policy.rules; expected all rules there")
                return
            self._note(source, form)
            task.pop("eval")
        converted = [self._convert_rule(item, is_older=source is not rules) for item in source.list_items()]
        task["spec"] = {
            **(spec if isinstance(spec, dict) else {}),
            "policy": {**(policy if isinstance(policy, dict) else {}), "rules": converted},
        }

    def _convert_rule(self, item: Place, *, is_older: bool) -> JsonValue:
        """A rule; older ones have what follows beside the condition."""
        rule = item.value
        if not isinstance(rule, dict):
            return rule
        branch = rule.get("else")
        if "else" in rule:
            is_flat = isinstance(branch, dict) and "then" not in branch
            if is_flat:
                self._note(item.get("else"), "else without then")
            then = branch if is_flat else branch.get("then") if isinstance(branch, dict) else branch
            otherwise: JsonObject = {} if is_flat or not isinstance(branch, dict) else branch
            converted: JsonObject = {**otherwise, "then": self._convert_action(item.get("else"), then)}
            return {**rule, "else": rename(converted, POLICY_NAMES, self._known) if is_older else converted}
        item.refuse_synonyms({"expr": "when"})
        condition = "expr" if "expr" in rule else "when"
        if condition == "expr":
            self._note(item.get("expr"), "expr")
        others = {name: value for name, value in rule.items() if name not in ("expr", "then", "when")}
        then = rule.get("then")
        if then is None and "do" in others:
            self._note(item, "rule without then")
            then, others = others, {}
        guard: JsonObject = {"when": rule[condition]} if condition in rule else {}
        written: JsonObject = {**guard, "then": self._convert_action(item.get("then"), then), **others}
        return rename(written, POLICY_NAMES, self._known) if is_older else written

    def _convert_action(self, place: Place, then: JsonValue) -> JsonValue:
        if not isinstance(then, dict) or then.get("backoff") not in _CONSTANT:
            return then
        self._note(place.get("backoff"), f"backoff {then['backoff']}")
        return {"delay": 1, **then, "backoff": "none"}


def _reorder(step: JsonObject, name: str, *, before: tuple[str, ...]) -> None:
    """Put a member before others."""
    value = step.pop(name)
    after = {member: step.pop(member) for member in list(step) if member in before}
    step[name] = value
    step |= after


def count_forms(changes: tuple[Change, ...]) -> dict[str, int]:
    """How often each form was found, the most frequent first."""
    counts = dict[str, int]()
    for change in changes:
        counts[change.form] = counts.get(change.form, 0) + 1
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
