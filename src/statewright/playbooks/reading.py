"""Documents to playbooks: everything that is wrong with one is found at once, each with its place."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from statewright.jsonval.values import JsonObject, JsonValue, is_number
from statewright.playbooks.definition import (
    Credential,
    FailureMode,
    FinalStepFailure,
    Limits,
    OnQuiescence,
    Playbook,
    Step,
)
from statewright.playbooks.documents import InvalidDocument, read_document
from statewright.playbooks.graph import warn_of_routes
from statewright.playbooks.place import Finding, Findings, InvalidPlaybook, Place
from statewright.playbooks.review import NameCheck, review_steps
from statewright.playbooks.steps import read_seconds, read_step, read_target, strip_spec
from statewright.playbooks.tasks import WORKBOOK, TaskContext

MAX_STEPS: Final = 1_000
MAX_TEMPLATE_CHARS: Final = 256 * 1024
"""Of all templates and conditions of a playbook: some seconds of compiling at most."""
API_VERSIONS: Final = ("noetl.io/v2", "noetl.io/v10")
KIND: Final = "Playbook"
EDITORS_SCHEMA: Final = "$schema"
"""A member that says by which schema an editor checks a document."""

_ROOT: Final = ("apiVersion", "executor", "keychain", "kind", "metadata", "workbook", "workflow", "workload")
_ROOT_HINTS: Final[Mapping[str, str]] = {
    "vars": "is no member of a playbook; expected workload for what does not change, and ctx for what does",
}
_SPEC: Final = ("entry_step", "final_step", "no_next_is_error", "policy", "timeout_s")


class Reading(Struct, frozen=True, kw_only=True):
    """What came of a document."""

    playbook: Playbook | None
    """``None`` if there are errors."""
    errors: tuple[Finding, ...]
    warnings: tuple[Finding, ...]
    document: JsonObject
    """The document as a JSON value; empty if the text is none."""


def read_playbook(text: "bytes | str | JsonObject", *, disabled_kinds: frozenset[str] = frozenset()) -> Reading:
    """Read a playbook that is new, from YAML or JSON, or from a document that is decoded already.

    ``disabled_kinds``: kinds of tasks that the service does not do. The largest document costs up to five seconds, so
    a thread should do it beside an event loop.
    """
    return _read(text, _Reader.review, disabled_kinds=disabled_kinds)


def restore_playbook(text: "str | JsonObject") -> Reading:
    """Read a playbook that is registered, or is only played: what keeps out new ones alone does not stop it."""
    return _read(text, _Reader.find_doubtful, disabled_kinds=frozenset())


def _read(
    text: "bytes | str | JsonObject",
    compare_names: "Callable[[_Reader, Playbook], Playbook]",
    *,
    disabled_kinds: frozenset[str],
) -> Reading:
    findings = Findings()
    try:
        document = text if isinstance(text, dict) else read_document(text)
    except InvalidDocument as refused:
        findings.add_error(refused.path, str(refused))
        return _conclude(None, findings, {})
    reader = _Reader(Place(document, "", findings), disabled_kinds)
    reader.check_header()
    playbook = reader.read()
    return _conclude(None if playbook is None else compare_names(reader, playbook), findings, document)


def compile_playbook(text: "str | JsonObject") -> Playbook:
    """As :func:`restore_playbook`. Raises :class:`InvalidPlaybook` with all errors."""
    reading = restore_playbook(text)
    if reading.playbook is None:
        raise InvalidPlaybook(reading.errors)
    return reading.playbook


def _conclude(playbook: Playbook | None, findings: Findings, document: JsonObject) -> Reading:
    errors = tuple(findings.errors)
    return Reading(
        playbook=None if errors else playbook, errors=errors, warnings=tuple(findings.warnings), document=document
    )


class _Reader:
    def __init__(self, root: Place, disabled_kinds: frozenset[str]) -> None:
        self._root = root
        self._disabled_kinds = disabled_kinds

    def check_header(self) -> None:
        """``apiVersion`` and ``kind``, which may be absent, and that nothing unknown is beside them."""
        members = {name: member for name, member in self._root.read_mapping().items() if name != EDITORS_SCHEMA}
        Place(members, "", self._root.findings).refuse_unknown(_ROOT, _ROOT_HINTS)
        version, kind = self._root.get("apiVersion"), self._root.get("kind")
        if version.value not in API_VERSIONS and not version.is_absent:
            version.expect(f"one of {', '.join(API_VERSIONS)}")
        if kind.value != KIND and not kind.is_absent:
            kind.expect(KIND)

    def read(self) -> Playbook | None:
        """The playbook; of one with errors what can be read."""
        root = self._root
        metadata, executor = root.get("metadata"), root.get("executor")
        name = self._read_metadata(metadata)
        spec = self._read_executor(executor)
        workload = root.get("workload").read_mapping()
        if (found := _count_template_chars(root.value)) > MAX_TEMPLATE_CHARS:
            root.refuse(f"has {found} characters of templates and conditions; at most {MAX_TEMPLATE_CHARS} are allowed")
            return None
        context = TaskContext(
            spec=strip_spec(spec, _SPEC), workbook=self._read_workbook(), disabled_kinds=self._disabled_kinds
        )
        steps = self._read_steps(context)
        keychain = tuple(self._read_credentials())
        if not steps:
            return None
        known: dict[str, tuple[str, ...]] = {step.name: () for step in steps}
        entry, final = spec.get("entry_step"), spec.get("final_step")
        policy = spec.get("policy")
        path = metadata.get("path")
        return Playbook(
            name=name,
            path=name if path.is_absent else path.read_name("a path") or name,
            version=_read_version(metadata.get("version")),
            description=metadata.get("description").read_text(),
            tags=tuple(_list_tags(metadata.get("tags"))),
            metadata=metadata.read_mapping(),
            keychain=keychain,
            workload=workload,
            entry=steps[0].name if entry.is_absent else read_target(entry, known) or steps[0].name,
            final=None if final.is_absent else read_target(final, known),
            no_next_is_error=spec.get("no_next_is_error").read_boolean(),
            failure_mode=_read_failure_mode(policy.get("failure")),
            on_quiescence=_read_on_quiescence(policy.get("pending")),
            final_step_failure=_read_final_step_failure(policy.get("final_step_failure")),
            timeout_ms=read_seconds(Place(spec.get("timeout_s").value, "", Findings())),
            limits=_read_limits(policy.get("limits")),
            steps=steps,
        )

    def review(self, playbook: Playbook) -> Playbook:
        """Note what can never work in it, and what seldom is meant."""
        self._review_executor()
        warn_of_routes(playbook, self._root.get("workflow"))
        steps = self._order_steps(playbook)
        review_steps(playbook, [(step, place) for step, place in steps if step is not None])
        return self._check_names(playbook, [step for step, _ in steps])

    def _review_executor(self) -> None:
        spec = self._root.get("executor").get("spec")
        read_seconds(spec.get("timeout_s"))
        for member in spec.read_mapping():
            if member not in _SPEC:
                guess = spec.guess(member, _SPEC)
                spec.get(member).warn(f"is no setting of executions: it is given to the tools of all tasks{guess}")

    def find_doubtful(self, playbook: Playbook) -> Playbook:
        """Find the names that may have no value, and note nothing."""
        findings, aside = self._root.findings, Findings()
        for placed in findings.templates:
            placed.place.findings = aside
        return self._check_names(playbook, [step for step, _ in self._order_steps(playbook)])

    def _check_names(self, playbook: Playbook, steps: Sequence[Step | None]) -> Playbook:
        doubtful = NameCheck(playbook, steps).check(self._root.findings.templates)
        return replace(playbook, doubtful=doubtful) if doubtful else playbook

    def _order_steps(self, playbook: Playbook) -> list[tuple[Step | None, Place]]:
        """The steps by their places in the document; ``None`` where there is no step, or one that is told twice."""
        left, found = dict(playbook.by_name), list[tuple[Step | None, Place]]()
        for item in self._root.get("workflow").list_items():
            name = item.get("step").value
            found.append((left.pop(name, None) if isinstance(name, str) else None, item))
        return found

    def _read_metadata(self, place: Place) -> str:
        members = place.read_mapping()
        if place.is_absent:
            place.refuse("is missing; expected a mapping with name")
        elif isinstance(place.value, dict):
            labels = place.get("labels")
            labels.read_mapping()
            return place.get("name").read_name("the name of the playbook") or "?"
        return str(members.get("name", "?"))

    def _read_executor(self, place: Place) -> Place:
        place.read_mapping()
        spec = place.get("spec")
        spec.read_mapping()
        for member in place.read_mapping():
            if member not in ("kind", "profile", "requires", "spec"):
                place.get(member).warn("is not known here and has no effect")
        policy = spec.get("policy")
        policy.expect_members(("failure", "final_step_failure", "limits", "pending"))
        return spec

    def _read_workbook(self) -> dict[str, JsonObject]:
        """``{tasks: {name: task}}``, or a list of ``{name, tool}``."""
        place = self._root.get("workbook")
        found: dict[str, tuple[Place, JsonValue]] = {}
        if isinstance(place.value, list):
            for item in place.list_items():
                name = item.get("name").read_name("the name of the task")
                if name is not None:
                    found[name] = (item.get("tool"), item.get("tool").value)
        elif isinstance(place.value, dict):
            place.refuse_unknown(("tasks",))
            tasks = place.get("tasks")
            found = {name: (tasks.get(name), member) for name, member in tasks.read_mapping().items()}
        elif not place.is_absent:
            place.expect("a mapping with tasks, or a list of tasks with name and tool")
        read: dict[str, JsonObject] = {}
        for name, (task, value) in found.items():
            if not isinstance(value, dict):
                task.expect("a mapping with kind")
            elif value.get("kind") == WORKBOOK:
                task.get("kind").refuse("must be another kind: a task of the workbook cannot be one of its tasks")
            else:
                read[name] = value
        return read

    def _read_steps(self, context: TaskContext) -> tuple[Step, ...]:
        workflow = self._root.get("workflow")
        items = list(workflow.list_items("a list of steps"))
        if not items and (workflow.is_absent or isinstance(workflow.value, list)):
            workflow.refuse("is missing or empty; expected a list of steps")
        if len(items) > MAX_STEPS:
            workflow.refuse(f"has {len(items)} steps; at most {MAX_STEPS} are allowed")
            return ()
        named = self._name_steps(items)
        sources = _find_sources(named)
        return tuple(read_step(place, name, sources, context) for name, place in named.items())

    def _name_steps(self, items: list[Place]) -> dict[str, Place]:
        named: dict[str, Place] = {}
        for item in items:
            if not isinstance(item.value, dict):
                item.expect("a mapping with step")
                continue
            name = item.get("step").read_name("the name of the step")
            if name in named:
                item.get("step").refuse(f"must be another name: there is a step {name!r} before it")
            elif name is not None:
                named[name] = item
        return named

    def _read_credentials(self) -> list[Credential]:
        found: dict[str, Credential] = {}
        for item in self._root.get("keychain").list_items("a list of credentials"):
            if not isinstance(item.value, dict):
                item.expect("a mapping with name and kind")
                continue
            name = item.get("name").read_name("the name of the credential")
            kind = item.get("kind").read_name("the kind of the credential")
            if name in found:
                item.get("name").refuse(f"must be another name: there is a credential {name!r} before it")
            elif name is not None and kind is not None:
                fields = {key: member for key, member in item.value.items() if key not in ("name", "kind")}
                found[name] = Credential(name=name, kind=kind, fields=fields)
        return list(found.values())


def _count_template_chars(document: JsonValue) -> int:
    """The length of all texts that are compiled: a little more than that, where a field is called ``when``."""
    total, pending = 0, [("", document)]
    while pending:
        name, value = pending.pop()
        if isinstance(value, str):
            total += len(value) if name == "when" or "{{" in value or "{%" in value else 0
        elif isinstance(value, dict):
            pending.extend(value.items())
        elif isinstance(value, list):
            pending.extend(("", item) for item in value)
    return total


def _find_sources(named: Mapping[str, Place]) -> dict[str, list[str]]:
    """Of each step the steps that have an arc to it, in the order of the document."""
    sources: dict[str, list[str]] = {name: [] for name in named}
    for name, place in named.items():
        arcs = place.get("next").get("arcs").value
        targets = (arc.get("step") for arc in arcs if isinstance(arc, dict)) if isinstance(arcs, list) else ()
        for target in dict.fromkeys(target for target in targets if isinstance(target, str)):
            if target in sources:
                sources[target].append(name)
    return sources


def _read_version(place: Place) -> str | None:
    if is_number(place.value):
        return str(place.value)
    return None if place.is_absent else place.read_name("a version")


def _list_tags(place: Place) -> list[str]:
    if isinstance(place.value, str):
        return [place.value]
    return [item.read_text() for item in place.list_items("a list of tags")]


def _read_failure_mode(place: Place) -> FailureMode:
    place.expect_members(("mode",))
    return place.get("mode").read_choice(FailureMode, "fail_on_any_error")


def _read_on_quiescence(place: Place) -> OnQuiescence:
    place.expect_members(("on_quiescence",))
    return place.get("on_quiescence").read_choice(OnQuiescence, "wait")


def _read_final_step_failure(place: Place) -> FinalStepFailure:
    return place.read_choice(FinalStepFailure, "fail")


def _read_limits(place: Place) -> Limits:
    highest = Limits()
    names = highest.__struct_fields__
    place.expect_members(names)
    lowered = {name: place.get(name).read_whole(1, getattr(highest, name), getattr(highest, name)) for name in names}
    return Limits(**lowered)
