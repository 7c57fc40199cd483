"""One document for each code of a finding, with the exact place (docs/reference/operations.md#checking-workflows).

The codes are those that the types of the code allow: a new one fails here until there is a document that gives it.
"""

import re
from pathlib import Path
from typing import Any, Final, get_args

import pytest
from msgspec import Struct

from statewright.conditions import KnownFields
from statewright.entity import ModelKey
from statewright.jsonval.codec import encode
from statewright.jsonval.values import DataType
from statewright.schema import DeclaredField
from statewright.workflow import read_import
from statewright.workflow.review import SEVERITIES, CheckResult, Doubt, Note, StateUse, Surroundings, check_import
from statewright.workflow.structure import ViolationCode
from tests.builders import a_processor, a_workflow, automated, judged_by, manual, when

Json = Any

KEY: Final = ModelKey("prize", 1)
FIELDS: Final = KnownFields(
    {
        "$.year": DeclaredField(types=frozenset({DataType.INTEGER})),
        "$.name": DeclaredField(types=frozenset({DataType.STRING})),
    }
)
ALL_HERE: Final = Surroundings(fields=FIELDS, has_member=lambda _tags: True)
NOBODY: Final = Surroundings(has_member=lambda _tags: False)

CODES: Final = {
    *(("ERROR", code) for code in get_args(ViolationCode)),
    *(("WARNING", code) for code in get_args(Doubt)),
    *(("INFO", code) for code in get_args(Note)),
}


class Fixture(Struct, frozen=True):
    """A document, and where it gives its finding; ``stored`` is what the model has already."""

    severity: str
    code: str
    path: str
    workflow: Json
    around: Surroundings = ALL_HERE
    stored: tuple[Json, ...] = ()
    members: dict[str, Json] = {}

    def check(self) -> CheckResult:
        before = read_import({"workflows": list(self.stored)}).workflows
        return check_import({"workflows": [self.workflow], **self.members}, KEY, before, self.around)


def error(code: str, path: str, workflow: Json, **more: Json) -> Fixture:
    return Fixture("ERROR", code, path, workflow, **more)


def warning(code: str, path: str, workflow: Json, **more: Json) -> Fixture:
    return Fixture("WARNING", code, path, workflow, **more)


def note(code: str, path: str, workflow: Json) -> Fixture:
    return Fixture("INFO", code, path, workflow)


def both(*conditions: Json) -> Json:
    return {"type": "group", "operator": "AND", "conditions": list(conditions)}


def timed(delay_ms: int = 60_000, **schedule: Json) -> Json:
    return {"name": "LATE", "next": "B", "manual": False, "schedule": {"delayMs": delay_ms, **schedule}}


def guarded(criterion: Json, **members: Json) -> Json:
    return a_workflow(A=[automated("G", to="B", criterion=criterion)], B=[], **members)


def processed(processor: Json) -> Json:
    return a_workflow(A=[manual("G", to="B", processors=[processor])], B=[])


def annotated(processor: Json, **own: Json) -> Json:
    return {**processor, "annotations": {"statewright": own}}


FINE: Final = a_workflow(A=[manual("GO", to="B")], B=[])
UP, DOWN = when("$.year", "GREATER_THAN", 10), when("$.year", "LESS_THAN", 5)
FIRST: Final = "/workflows/0/states/A/transitions/0"
USES: Final = Surroundings(
    uses=[StateUse(workflow="lifecycle", state="OLD", count=7)],
    timers=[StateUse(workflow="lifecycle", state="A", transition="LATE", count=31)],
)

FIXTURES: Final = [
    error("INVALID_STRUCTURE", "/workflows/0/name", a_workflow("", A=[])),
    error("INVALID_STRUCTURE", "/workflows/0/initialState", a_workflow(A=[], initial="X")),
    error("INVALID_STRUCTURE", f"{FIRST}/schedule", a_workflow(A=[timed(0)], B=[])),
    error("INVALID_STRUCTURE", "/workflows/0/states/a~1b/odd", {**FINE, "states": {"a/b": {"odd": 1}}}),
    error("INVALID_STRUCTURE", "/workflows/0/states/a.b/odd", {**FINE, "states": {"a.b": {"odd": 1}}}),
    error(
        "INVALID_STRUCTURE", "/workflows/0/states/A[0]; x at y/odd", {**FINE, "states": {"A[0]; x at y": {"odd": 1}}}
    ),
    error("INVALID_STRUCTURE", f"{FIRST}/name", a_workflow(A=[{"name": 5, "next": "A"}])),
    error("INVALID_STRUCTURE", f"{FIRST}/name", a_workflow(A=[manual("x" * 257, to="NOWHERE")])),
    error("INVALID_STRUCTURE", "/importMode", FINE, members={"importMode": "at x"}),
    error("INVALID_STRUCTURE", "/entityName", FINE, members={"entityName": "other"}),
    error("INVALID_STRUCTURE", "/modelVersion", FINE, members={"modelVersion": 2}),
    error(
        "UNKNOWN_NEXT",
        "/workflows/0/states/A/transitions/1/next",
        a_workflow(A=[manual("A", to="A"), manual("B", to="X")]),
    ),
    error(
        "DUPLICATE_NAME",
        "/workflows/0/states/A/transitions/1/name",
        a_workflow(A=[manual("G", to="A"), manual("G", to="A")]),
    ),
    error(
        "UNGUARDED_CYCLE", "/workflows/0/states/A", a_workflow(A=[automated("G", to="B")], B=[automated("G", to="A")])
    ),
    error("INVALID_CRITERION", f"{FIRST}/criterion", guarded(when("$.year", "NEARLY", 1))),
    error("INVALID_CRITERION", "/workflows/0/criterion", a_workflow(A=[], criterion=when("$..year", "EQUALS", 1))),
    error("INVALID_ANNOTATION", "/workflows/0/states/A/annotations", {**FINE, "states": {"A": {"annotations": 1}}}),
    error("INVALID_ANNOTATION", f"{FIRST}/processors/0/annotations", processed(annotated(a_processor(), x=1))),
    error("UNSUPPORTED_VERSION", "/workflows/0/version", a_workflow(version="1.9", A=[])),
    error("INVALID_MODE", f"{FIRST}/processors/0/executionMode", processed(a_processor(mode="LATER"))),
    error("INVALID_MODE", f"{FIRST}/processors/0/executionMode", processed(a_processor(startNewTxOnDispatch=True))),
    warning("UNREACHABLE_STATE", "/workflows/0/states/C", a_workflow(A=[manual("GO", to="B")], B=[], C=[])),
    warning("DEAD_END", "/workflows/0/states/A", a_workflow(A=[manual("GO", to="B", disabled=True)], B=[])),
    warning(
        "SHADOWED_TRANSITION",
        "/workflows/0/states/A/transitions/1",
        a_workflow(A=[automated("X", to="B"), automated("Y", to="B")], B=[]),
    ),
    warning(
        "OVERLAPPING_CRITERIA",
        "/workflows/0/states/A/transitions/1/criterion",
        a_workflow(
            A=[automated("X", to="B", criterion=UP), automated("Y", to="B", criterion=when("$.year", "NOT_NULL"))], B=[]
        ),
    ),
    warning("NEVER_TRUE", f"{FIRST}/criterion", guarded(both(UP, DOWN))),
    warning(
        "PATH_NOT_IN_MODEL", "/workflows/0/criterion", a_workflow(A=[], criterion=when("$.colour", "EQUALS", "red"))
    ),
    warning("TYPE_MISMATCH", "/workflows/0/criterion", a_workflow(A=[], criterion=when("$.year", "EQUALS", "soon"))),
    warning("TAG_WITHOUT_MEMBER", f"{FIRST}/processors/0", processed(a_processor(tags="mail,fast")), around=NOBODY),
    warning("TAG_WITHOUT_MEMBER", f"{FIRST}/criterion", guarded(judged_by("worthy")), around=NOBODY),
    warning(
        "TAG_NEVER_SEEN",
        f"{FIRST}/processors/0",
        processed(a_processor(tags="mail,pigeon")),
        around=Surroundings(has_member=lambda _tags: False, has_seen=lambda tag: tag == "mail"),
    ),
    warning("TIMER_SHORTER_THAN_SCAN", f"{FIRST}/schedule/delayMs", a_workflow(A=[timed(999)], B=[])),
    warning("TIMEOUT_SHORTER_THAN_SCAN", f"{FIRST}/schedule/timeoutMs", a_workflow(A=[timed(timeoutMs=10)], B=[])),
    warning(
        "REMOVED_STATE_IN_USE",
        "/workflows/0/states",
        FINE,
        around=USES,
        stored=(a_workflow(A=[timed()], B=[], OLD=[]),),
    ),
    warning(
        "REMOVED_TRANSITION_WITH_TIMER",
        "/workflows/0/states",
        a_workflow(A=[manual("LATE", to="B")], B=[], OLD=[]),
        around=USES,
        stored=(a_workflow(A=[timed()], B=[], OLD=[]),),
    ),
    warning("SELECTION_GAP", "/workflows", a_workflow(A=[], criterion=UP)),
    warning(
        "FIELD_IGNORED", "/workflows/0/states/A/colour", {**FINE, "version": "1", "states": {"A": {"colour": "red"}}}
    ),
    warning("SUSPENDED_TARGET", "/workflows/0", FINE, around=Surroundings(suspends=lambda _workflow, name: name == "")),
    warning("SUSPENDED_TARGET", FIRST, FINE, around=Surroundings(suspends=lambda _workflow, name: name == "GO")),
    warning(
        "SUSPENDED_TARGET",
        f"{FIRST}/processors/0",
        processed(a_processor(tags="mail")),
        around=Surroundings(suspends_tags=lambda tags: "mail" in tags),
    ),
    warning("INVALID_CRITERION", "/workflows/0/criterion", a_workflow(version="1", A=[], criterion={"type": "odd"})),
    warning("FUNCTION_WITHOUT_TAGS", f"{FIRST}/criterion", guarded(judged_by("worthy", tags=""))),
    note("NO_TERMINAL_STATE", "/workflows/0/states", a_workflow(A=[manual("GO", to="B")], B=[manual("BACK", to="A")])),
    note(
        "DISABLED_TRANSITION",
        "/workflows/0/states/A/transitions/1",
        a_workflow(A=[manual("GO", to="B"), manual("NO", to="B", disabled=True)], B=[]),
    ),
    note("INACTIVE_WORKFLOW", "/workflows/0/active", a_workflow(A=[], active=False)),
    note(
        "RETRY_REPEATS_EFFECTS", f"{FIRST}/processors/0", processed(annotated(a_processor(), retry={"on": ["TIMEOUT"]}))
    ),
]


@pytest.mark.parametrize("fixture", FIXTURES, ids=lambda each: f"{each.code} {each.path}")
def test_a_document_gives_its_finding_at_its_place_and_once(fixture: Fixture):
    result = fixture.check()
    told = [(each.severity, each.path) for each in result.findings if each.code == fixture.code]
    assert told == [(fixture.severity, fixture.path)]
    assert result.is_importable is (fixture.severity != "ERROR")


@pytest.mark.parametrize(("severity", "code"), sorted(CODES))
def test_every_code_has_a_document_that_gives_it(severity: str, code: str):
    assert any((each.severity, each.code) == (severity, code) for each in FIXTURES)


@pytest.mark.parametrize("fixture", FIXTURES, ids=lambda each: f"{each.code} {each.path}")
def test_the_place_is_in_the_document_or_says_what_is_missing_there(fixture: Fixture):
    """A pointer leads as far into the document as there is something; only its last step may not be there."""
    here: Json = {"workflows": [fixture.workflow], **fixture.members}
    steps = [step.replace("~1", "/").replace("~0", "~") for step in fixture.path.split("/")[1:]]
    for step in steps[:-1]:
        here = here[int(step)] if isinstance(here, list) else here[step]
    assert isinstance(here, list | dict)


def test_the_reference_lists_the_codes():
    page = Path("docs/reference/operations.md").read_text()
    rows = re.findall(
        r"^\| `(ERROR|WARNING|INFO)`[^|]*\| (.*) \|$", page.partition("## Checking workflows")[2], re.MULTILINE
    )
    listed = {(severity, code) for severity, cell in rows for code in re.findall(r"`([A-Z]+(?:_[A-Z]+)+)`", cell)}
    assert {severity for severity, _ in rows} == set(SEVERITIES)
    assert listed == CODES


# Whatever a document says, the answer to it stays in proportion.


def measure(result: CheckResult) -> int:
    """Bytes of what is told."""
    shown = [[each.code, each.path, each.message, each.witness] for each in result.findings]
    return len(encode(shown))


def test_a_name_that_is_far_too_long_is_told_without_all_that_is_below_it():
    name = "x" * 100_000
    states = {name: {"transitions": [manual(f"T{number}", to="NOWHERE") for number in range(100)]}}
    result = error("INVALID_STRUCTURE", "", {**FINE, "initialState": name, "states": states}).check()
    assert [each.path for each in result.findings] == [f"/workflows/0/states/{'x' * 1_000}…"]
    assert measure(result) < 10_000


def test_members_that_are_ignored_are_told_by_the_beginning_of_their_names():
    states = {"A": {"x" * 100_000: {}, "transitions": [manual("GO", to="A")]}}
    result = warning("FIELD_IGNORED", "", {**FINE, "version": "1", "states": states}).check()
    assert measure(result) < 10_000


def test_a_witness_that_is_large_is_left_out():
    criterion = when("$.name", "EQUALS", "x" * 20_000)
    ways = [automated(f"T{number}", to="B", criterion=criterion) for number in range(9)]
    result = warning("OVERLAPPING_CRITERIA", "", a_workflow(A=ways, B=[])).check()
    overlaps = [each for each in result.findings if each.code == "OVERLAPPING_CRITERIA"]
    assert len(overlaps) == 36
    assert {str(each.witness) for each in overlaps} == {"None"}
