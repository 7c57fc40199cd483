"""Decoding a definition from what was uploaded (docs/reference/steps.md#parsing,
docs/reference/steps.md#rules-for-tables).

Reading the members of a definition's objects: names in any case, unknown ones refused, ``null`` like absent.

The wording follows the reader of the public engine (docs/reference/steps.md#parsing).
"""

import json
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from typing import Final, TypeVar

import msgspec

from statewright.jsonval.codec import MalformedJson, decode
from statewright.jsonval.values import JsonObject, JsonValue, MemberReader, WantedType, json_type, member_path, quote
from statewright.steps.definition import BoundaryEvent, DecisionTable, Definition, Rule, Step

T = TypeVar("T")


class UnreadableDefinition(Exception):
    """A text that is no definition document at all."""


class DefinitionMembers(MemberReader):
    """The members of one object under their proper names. ``path`` is where the object is, for messages."""

    def __init__(self, value: JsonValue, names: Mapping[str, str], path: str) -> None:
        if not isinstance(value, dict):
            raise _mismatch(value, path or "definition", "object")
        self.path = path
        self._values = _canonicalize(value, names)

    def get(self, name: str) -> JsonValue:
        return self._values.get(name)

    def build_type_error(self, name: str, value: JsonValue, wanted: WantedType) -> UnreadableDefinition:
        return _mismatch(value, self.path_of(name), wanted)

    def texts_by_name(self, name: str) -> dict[str, str]:
        """An object of strings; ``null`` among them counts as the empty string."""
        return {
            key: _read_text(value, f"{self.path_of(name)}.{key}") for key, value in (self.object(name) or {}).items()
        }

    def texts(self, name: str) -> tuple[str, ...]:
        """An array of strings, empty when absent."""
        return tuple(self.read_each(name, _read_text))

    def read_each(self, name: str, read: Callable[[JsonValue, str], T]) -> Iterable[T]:
        """The items of an array, each read from its value and path."""
        return [read(item, f"{self.path_of(name)}[{index}]") for index, item in enumerate(self.array(name))]

    def path_of(self, name: str) -> str:
        """The path of a member."""
        return member_path(self.path, name)


def _canonicalize(value: JsonObject, names: Mapping[str, str]) -> JsonObject:
    members: JsonObject = {}
    for written, member in value.items():
        name = names.get(written) or names.get(written.lower())
        if name is None:
            raise UnreadableDefinition(f"json: unknown field {quote(written)}")
        if member is not None:
            members[name] = member
    return members


def map_spellings(*names: str) -> Mapping[str, str]:
    """The proper names by themselves and by their lower-case forms."""
    return {name.lower(): name for name in names} | {name: name for name in names}


def _read_text(value: JsonValue, path: str) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise _mismatch(value, path, "string")
    return value


def _mismatch(value: JsonValue, path: str, wanted: WantedType) -> UnreadableDefinition:
    found = f"number {value}" if isinstance(value, Decimal) else json_type(value)
    return UnreadableDefinition(f"json: cannot unmarshal {found} into {path} of type {wanted}")


_DEFINITION: Final = map_spellings(
    "id",
    "version",
    "name",
    "description",
    "autoStartNextWorkflow",
    "nextWorkflowId",
    "steps",
    "metadata",
)
_STEP: Final = map_spellings(
    "id",
    "name",
    "type",
    "description",
    "nextStep",
    "parallelNextSteps",
    "joinStep",
    "conditionalNextSteps",
    "transformations",
    "jobType",
    "delegateClass",
    "retryCount",
    "boundaryEvents",
    "hitPolicy",
    "decisionTable",
)
_EVENT: Final = map_spellings("type", "duration", "interrupting", "targetStepId")
_TABLE: Final = map_spellings("rules", "defaultNextStep")
_RULE: Final = map_spellings("when", "outputs", "then")


def read_definition(raw: bytes | str) -> Definition:
    """The definition in a text; what follows its first JSON value is ignored. Raises :class:`UnreadableDefinition`."""
    return definition_from_document(_decode_first_value(raw))


def definition_from_document(value: JsonValue) -> Definition:
    """The definition in a JSON value. Raises :class:`UnreadableDefinition`."""
    members = DefinitionMembers({} if value is None else value, _DEFINITION, "")
    members.integer("version")  # may be sent back as it was read; it is not the author's to choose
    return Definition(
        id=members.text("id"),
        name=members.text("name"),
        description=members.text("description"),
        auto_start_next_workflow=members.flag("autoStartNextWorkflow") or False,
        next_workflow_id=members.text("nextWorkflowId"),
        steps=tuple(members.read_each("steps", _read_step)),
        metadata=members.object("metadata") or None,
    )


def _read_step(value: JsonValue, path: str) -> Step:
    members = DefinitionMembers({} if value is None else value, _STEP, path)
    step_id = members.text("id")
    return Step(
        id=step_id,
        name=members.text("name"),
        type=members.text("type"),
        description=members.text("description"),
        next_step=members.text("nextStep"),
        parallel_next_steps=members.texts("parallelNextSteps"),
        join_step=members.text("joinStep"),
        conditional_next_steps=members.texts_by_name("conditionalNextSteps"),
        transformations=members.object("transformations") or {},
        job_type=members.text("jobType"),
        delegate_class=members.text("delegateClass"),
        retry_count=members.integer("retryCount") or 0,
        boundary_events=tuple(members.read_each("boundaryEvents", _read_boundary_event)),
        hit_policy=members.text("hitPolicy"),
        decision_table=_read_decision_table(members, step_id),
    )


def _read_boundary_event(value: JsonValue, path: str) -> BoundaryEvent:
    members = DefinitionMembers({} if value is None else value, _EVENT, path)
    return BoundaryEvent(
        type=members.text("type"),
        duration=members.text("duration"),
        interrupting=members.flag("interrupting") or False,
        target_step_id=members.text("targetStepId"),
    )


def _read_decision_table(step: DefinitionMembers, step_id: str) -> DecisionTable | None:
    value = step.get("decisionTable")
    if value is None:
        return None
    members = DefinitionMembers(value, _TABLE, step.path_of("decisionTable"))
    if members.get("defaultNextStep") is not None:
        raise _build_unsupported_error(step_id, "decisionTable.defaultNextStep")
    rules = list(members.read_each("rules", _read_rule))
    for index, rule in enumerate(rules):
        if rule.get("then") is not None:
            raise _build_unsupported_error(step_id, f"decisionTable.rules[{index}].then")
    return DecisionTable(
        rules=tuple(Rule(when=rule.texts_by_name("when"), outputs=rule.object("outputs") or {}) for rule in rules)
    )


def _read_rule(value: JsonValue, path: str) -> DefinitionMembers:
    return DefinitionMembers({} if value is None else value, _RULE, path)


def _build_unsupported_error(step_id: str, member: str) -> UnreadableDefinition:
    return UnreadableDefinition(
        f"step {quote(step_id)}: {member} is no longer supported; "
        "let rules produce outputs and route with a DECISION step"
    )


def _decode_first_value(raw: bytes | str) -> JsonValue:
    try:
        return decode(raw)
    except MalformedJson as defect:
        if not raw.strip():
            raise UnreadableDefinition("EOF") from None
        first = _cut_trailing_text(raw) if defect.reason.startswith("Extra data") else None
        if first is None:
            raise UnreadableDefinition(f"json: {defect}") from None
    try:
        return decode(first)
    except MalformedJson as defect:
        raise UnreadableDefinition(f"json: {defect}") from None


def _forget(_: object) -> None:
    """In the place of an object: nothing has to be freed in the end, and other threads get their turn."""


_SKIPPER: Final = json.JSONDecoder(object_pairs_hook=_forget)


def _cut_trailing_text(raw: bytes | str) -> str | None:
    """The text of the first JSON value, when something follows it."""
    try:
        text = (raw if isinstance(raw, str) else raw.decode()).lstrip(" \t\r\n")
        _, end = _SKIPPER.raw_decode(text)
    except (ValueError, RecursionError):
        return None
    return text[:end] if text[end:].strip() else None


# Definitions as documents, in the order of the author's members (docs/reference/steps.md#versions).
#
# The order of ``conditionalNextSteps``, ``transformations`` and table cells means something, so the stored form is a
# text: ``jsonb`` would re-order it.

_ENCODER: Final = msgspec.json.Encoder(decimal_format="number")


def definition_to_document(definition: Definition, version: int | None = None) -> JsonObject:
    """The definition as clients read it: empty optional members omitted, ``version`` after ``id`` when given."""
    return _omit_empty(
        id=definition.id,
        version=version,
        name=definition.name,
        description=definition.description,
        autoStartNextWorkflow=definition.auto_start_next_workflow,
        nextWorkflowId=definition.next_workflow_id,
        steps=[_step_to_document(step) for step in definition.steps],
        metadata=definition.metadata,
    )


def definition_to_text(definition: Definition) -> str:
    """The text to store; :func:`from_stored` reads it back unchanged."""
    return encode_document(definition_to_document(definition))


def definition_from_text(text: str) -> Definition:
    """The definition that :func:`to_stored` wrote."""
    return read_definition(text)


def encode_document(document: JsonObject) -> str:
    """Compact JSON that keeps the order of members."""
    return _ENCODER.encode(document).decode()


def _step_to_document(step: Step) -> JsonObject:
    return _omit_empty(
        id=step.id,
        name=step.name,
        type=step.type,
        description=step.description,
        nextStep=step.next_step,
        parallelNextSteps=list(step.parallel_next_steps),
        joinStep=step.join_step,
        conditionalNextSteps=_copy_texts(step.conditional_next_steps),
        transformations=dict(step.transformations),
        jobType=step.job_type,
        delegateClass=step.delegate_class,
        retryCount=step.retry_count,
        boundaryEvents=[_event_to_document(event) for event in step.boundary_events],
        hitPolicy=step.hit_policy,
        decisionTable=None if step.decision_table is None else _table_to_document(step.decision_table),
    )


def _event_to_document(event: BoundaryEvent) -> JsonObject:
    return {
        **_omit_empty(type=event.type, duration=event.duration),
        "interrupting": event.interrupting,
        **_omit_empty(targetStepId=event.target_step_id),
    }


def _table_to_document(table: DecisionTable) -> JsonObject:
    return {"rules": [_omit_empty(when=_copy_texts(rule.when), outputs=dict(rule.outputs)) for rule in table.rules]}


def _copy_texts(texts: Mapping[str, str]) -> JsonObject:
    return dict(texts.items())


def _omit_empty(**members: JsonValue) -> JsonObject:
    """The members that are not empty: neither ``false`` nor ``""`` nor 0 nor without content."""
    return {name: value for name, value in members.items() if value}
