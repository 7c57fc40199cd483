"""Values of a document together with their places, so that whatever is wrong with them can be told.

What is wrong with a document, or doubtful: each with the place and what was expected there.

Where in a text the values of a document stand: for people who mend it in an editor.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Annotated, Final, Literal, TypeVar, cast, get_args

import yaml
from msgspec import Meta, Struct
from yaml.events import (
    AliasEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from statewright.jsonval.values import JsonObject, JsonValue, guess_name, is_whole, read_index, to_whole
from statewright.playbooks.templates import (
    Condition,
    InvalidTemplate,
    Template,
    compile_condition,
    compile_template,
    find_defects,
)

MAX_FINDINGS: Final = 100
"""Of each kind; more would tell nobody more."""


class Finding(Struct, frozen=True, kw_only=True, order=True, forbid_unknown_fields=True):
    """An error keeps a playbook from being registered, a warning does not. Clients are told of it as it is."""

    path: Annotated[str, Meta(description="a JSON pointer")]
    """RFC 6901."""
    message: str
    severity: Literal["error", "warning"] = "error"


class InvalidPlaybook(ValueError):
    """A document that is no playbook, with all that is wrong with it."""

    def __init__(self, findings: tuple[Finding, ...]) -> None:
        super().__init__("; ".join(f"{finding.path or '/'}: {finding.message}" for finding in findings))
        self.findings = findings


class PlacedTemplate(Struct, frozen=True):
    """A template or condition of a document, and where it stands."""

    place: "Place"
    template: Template | Condition
    is_of_tool: bool = False
    """Whether it is the fields of a task."""


class Findings:
    """Collects what is found, up to :data:`MAX_FINDINGS` of each severity, and all templates with their places."""

    def __init__(self) -> None:
        self.errors: list[Finding] = []
        self.warnings: list[Finding] = []
        self.templates: list[PlacedTemplate] = []
        """All that were read, in the order in which they were."""
        self._guessed = 0

    def guess(self, name: str, known: Iterable[str]) -> str:
        """What may be meant by a name; nothing where so many were compared that nobody is told of more."""
        self._guessed += 1
        return guess_name(name, sorted(known)) if self._guessed <= 2 * MAX_FINDINGS else ""

    def add_error(self, path: str, message: str) -> None:
        """Something that must be mended."""
        if len(self.errors) < MAX_FINDINGS:
            self.errors.append(Finding(path=path, message=message))

    def add_warning(self, path: str, message: str) -> None:
        """Something that the author should look at."""
        if len(self.warnings) < MAX_FINDINGS:
            self.warnings.append(Finding(path=path, message=message, severity="warning"))


def escape(name: str) -> str:
    """A name as a JSON pointer has it."""
    return name.replace("~", "~0").replace("/", "~1")


MAX_NAME_CHARS: Final = 256
_T = TypeVar("_T", bound=str)
_NAMES: Final[dict[type, str]] = {
    bool: "a boolean",
    int: "a number",
    Decimal: "a number",
    dict: "a mapping",
    list: "a list",
}


class Place:
    """A value of a document, and where it stands. Null counts as absent.

    What a method finds wrong is noted, and it returns what goes for an absent value: so one reading finds everything.
    """

    __slots__ = ("_place", "findings", "value")

    def __init__(self, value: JsonValue, place: "str | tuple[Place, str]", findings: Findings) -> None:
        """``place``: a JSON pointer, or the value that has this one, and as what member."""
        self.value = value
        self._place = place
        self.findings = findings

    @property
    def path(self) -> str:
        """The JSON pointer, which few values ever need."""
        if not isinstance(self._place, str):
            outer, name = self._place
            self._place = f"{outer.path}/{escape(name)}"
        return self._place

    @property
    def is_absent(self) -> bool:
        """Whether there is nothing."""
        return self.value is None

    def get(self, name: str) -> "Place":
        """A member; of a list the item of that number."""
        value = self.value.get(name) if isinstance(self.value, dict) else None
        if isinstance(self.value, list) and (index := read_index(name, len(self.value))) is not None:
            value = self.value[index]
        return Place(value, (self, name), self.findings)

    def has(self, name: str) -> bool:
        """Whether there is a member of the name, null or not."""
        return isinstance(self.value, dict) and name in self.value

    def refuse(self, message: str) -> None:
        """Note an error here."""
        self.findings.add_error(self.path, message)

    def warn(self, message: str) -> None:
        """Note a warning here."""
        self.findings.add_warning(self.path, message)

    def expect(self, expected: str) -> None:
        """Note that there should be something else here."""
        self.refuse(f"must be {expected}, not {_describe(self.value)}")

    def guess(self, name: str, known: Iterable[str]) -> str:
        """What may be meant by a name that is found here, for the end of a message (``Findings.guess``)."""
        return self.findings.guess(name, known)

    def refuse_unknown(self, known: Iterable[str], hints: Mapping[str, str] = {}) -> None:
        """Note all members but the known ones; ``hints``: what to write instead."""
        if not isinstance(self.value, dict):
            return
        names = sorted(known)
        for name in self.value:
            if name in hints:
                self.get(name).refuse(hints[name])
            elif name not in names:
                self.get(name).refuse(f"is not known here; expected {', '.join(names)}{self.guess(name, names)}")

    def refuse_synonyms(self, meant: Mapping[str, str]) -> None:
        """Note each member that means what another before it does; ``meant``: what they are, of those that are called
        otherwise.
        """
        seen = dict[str, str]()
        for name in self.read_mapping():
            first = seen.setdefault(meant.get(name, name), name)
            if first != name:
                self.get(name).refuse(f"means the same as {first} beside it; expected one of them")

    def read_mapping(self) -> JsonObject:
        """The members; of an absent value none."""
        if isinstance(self.value, dict):
            return self.value
        if self.value is not None:
            self.expect("a mapping")
        return {}

    def expect_members(self, known: Iterable[str], hints: Mapping[str, str] = {}) -> None:
        """Note what is no mapping, and of one all members but the known ones, as :meth:`refuse_unknown` does."""
        self.read_mapping()
        self.refuse_unknown(known, hints)

    def list_items(self, what: str = "a list") -> Iterator["Place"]:
        """The items of a list."""
        if isinstance(self.value, list):
            for index, item in enumerate(self.value):
                yield Place(item, (self, str(index)), self.findings)
        elif self.value is not None:
            self.expect(what)

    def read_text(self, default: str = "") -> str:
        """Text of any length."""
        if isinstance(self.value, str):
            return self.value
        if self.value is not None:
            self.expect("text")
        return default

    def read_name(self, what: str = "a name") -> str | None:
        """Text that names something, which must be there."""
        if isinstance(self.value, str) and 0 < len(self.value) <= MAX_NAME_CHARS and self.value.strip() == self.value:
            return self.value
        if self.value is None:
            self.refuse(f"is missing; expected {what}")
        else:
            self.expect(f"{what}, text of 1 to {MAX_NAME_CHARS} characters without blanks around it")
        return None

    def read_boolean(self) -> bool:
        """True or false, which is also what an absent one is."""
        if isinstance(self.value, bool):
            return self.value
        if self.value is not None:
            self.expect("true or false")
        return False

    def read_choice(self, choices: object, default: _T) -> _T:
        """One of a ``Literal``."""
        values: tuple[_T, ...] = get_args(choices)
        if self.value is None:
            return default
        for value in values:
            if value == self.value:
                return value
        self.expect(f"one of {', '.join(values)}")
        return default

    def read_whole(self, low: int, high: int, default: int) -> int:
        """A whole number within bounds."""
        value = self.value
        if isinstance(value, Decimal):
            value = to_whole(value, 20)
        if is_whole(value) and low <= value <= high:
            return value
        if value is not None:
            self.expect(f"a whole number from {low} to {high}")
        return default

    def read_template(self, *, statements: bool = False) -> Template:
        """A value with templates."""
        try:
            template = compile_template(self.value, statements=statements)
        except InvalidTemplate:
            for defect in find_defects(self.value, statements=statements):
                self.findings.add_error(self.path + defect.path, f"is no template: {defect.message}")
            return compile_template(None)
        if not template.is_literal:
            self.findings.templates.append(PlacedTemplate(self, template, statements))
        return template

    def read_object_template(self) -> Template | None:
        """A mapping with templates, or one that gives a mapping."""
        if self.value is None:
            return None
        if not isinstance(self.value, dict) and not (isinstance(self.value, str) and "{{" in self.value):
            self.expect("a mapping, or a template of one")
            return None
        return self.read_template()

    def read_condition(self) -> Condition | None:
        """A condition."""
        if self.value is None:
            return None
        if not isinstance(self.value, bool | str):
            self.expect("true, false or an expression")
            return None
        try:
            condition = compile_condition(self.value)
        except InvalidTemplate as refused:
            self.refuse(f"is no condition: {refused}")
            return None
        self.findings.templates.append(PlacedTemplate(self, condition))
        return condition


def _describe(value: JsonValue) -> str:
    if isinstance(value, str):
        return f"{value!r}" if len(value) <= 40 else f"text of {len(value)} characters"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | Decimal):
        return str(value)[:40]
    return "null" if value is None else _NAMES[type(value)]


_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class DocumentPosition(Struct, frozen=True, order=True):
    """A place in a text, both from 1."""

    line: int = 1
    column: int = 1


def locate(text: str, paths: Collection[str]) -> dict[str, DocumentPosition]:
    """The positions of values in YAML or JSON, by JSON pointers: of a member that of its name, of one that is missing
    that of what it is missing from. Of a text that cannot be read, what comes before its defect.
    """
    wanted = {prefix for path in paths for prefix in _list_prefixes(path)}
    found: dict[str, DocumentPosition] = {}
    try:
        for path, event in _walk(text):
            mark = event.start_mark
            if path in wanted and path not in found and mark is not None:
                found[path] = DocumentPosition(mark.line + 1, mark.column + 1)
    except yaml.YAMLError:
        pass  # what was found until then stands
    return {path: next((found[p] for p in _list_prefixes(path) if p in found), DocumentPosition()) for path in paths}


def _list_prefixes(path: str) -> list[str]:
    """The path and those above it, the longest first."""
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(len(parts), 0, -1)]


class _Container(Struct, kw_only=True):
    path: str
    is_mapping: bool
    count: int = 0
    name: str | None = None

    def begin_value(self) -> str:
        """The path of the value that comes next."""
        if self.is_mapping:
            path, self.name = f"{self.path}/{escape(self.name or '')}", None
            return path
        self.count += 1
        return f"{self.path}/{self.count - 1}"


def _walk(text: str) -> Iterator[tuple[str, Event]]:
    """The paths of all values, each with the event that it, or its name, begins with."""
    open_: list[_Container] = []
    for event in cast("Iterable[Event]", yaml.parse(text, Loader=_LOADER)):
        if isinstance(event, MappingEndEvent | SequenceEndEvent):
            open_.pop()
        elif isinstance(event, MappingStartEvent | SequenceStartEvent | ScalarEvent | AliasEvent):
            inner = open_[-1] if open_ else None
            if inner is not None and inner.is_mapping and inner.name is None:
                inner.name = str(event.value) if isinstance(event, ScalarEvent) else "?"
                yield f"{inner.path}/{escape(inner.name)}", event
                if isinstance(event, ScalarEvent | AliasEvent):
                    continue
            path = inner.begin_value() if inner is not None else ""
            yield path, event
            if isinstance(event, MappingStartEvent | SequenceStartEvent):
                open_.append(_Container(path=path, is_mapping=isinstance(event, MappingStartEvent)))
