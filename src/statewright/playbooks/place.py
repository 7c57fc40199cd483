"""Values of a document together with their places, so that whatever is wrong with them can be told."""

from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Final, TypeVar, get_args

from statewright.jsonval.values import JsonObject, JsonValue
from statewright.playbooks.findings import Findings, escape
from statewright.playbooks.templates import (
    Condition,
    InvalidTemplate,
    Template,
    compile_condition,
    compile_template,
    find_defects,
)

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
        """A member."""
        value = self.value.get(name) if isinstance(self.value, dict) else None
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

    def refuse_unknown(self, known: Iterable[str], hints: Mapping[str, str] = {}) -> None:
        """Note all members but the known ones; ``hints``: what to write instead."""
        if not isinstance(self.value, dict):
            return
        names = sorted(known)
        for name in self.value:
            if name in hints:
                self.get(name).refuse(hints[name])
            elif name not in names:
                self.get(name).refuse(f"is not known here; expected {', '.join(names)}")

    def read_mapping(self) -> JsonObject:
        """The members; of an absent value none."""
        if isinstance(self.value, dict):
            return self.value
        if self.value is not None:
            self.expect("a mapping")
        return {}

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

    def read_boolean(self, default: bool = False) -> bool:
        """True or false."""
        if isinstance(self.value, bool):
            return self.value
        if self.value is not None:
            self.expect("true or false")
        return default

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
        if isinstance(value, Decimal) and value.adjusted() < 20 and value == value.to_integral_value():
            value = int(value)
        if isinstance(value, int) and not isinstance(value, bool) and low <= value <= high:
            return value
        if value is not None:
            self.expect(f"a whole number from {low} to {high}")
        return default

    def read_template(self, *, statements: bool = False) -> Template:
        """A value with templates."""
        try:
            return compile_template(self.value, statements=statements)
        except InvalidTemplate:
            for defect in find_defects(self.value, statements=statements):
                self.findings.add_error(self.path + defect.path, f"is no template: {defect.message}")
            return compile_template(None)

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
            return compile_condition(self.value)
        except InvalidTemplate as refused:
            self.refuse(f"is no condition: {refused}")
            return None


def _describe(value: JsonValue) -> str:
    if isinstance(value, str):
        return f"{value!r}" if len(value) <= 40 else f"text of {len(value)} characters"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | Decimal):
        return str(value)[:40]
    return "null" if value is None else _NAMES[type(value)]
