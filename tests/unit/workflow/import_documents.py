"""Random documents of imports: sound ones, and such with something wrong."""

from hypothesis import strategies as st

from statewright.jsonval.values import JsonObject
from tests.builders import when
from tests.unit.workflow.strategies import WORKFLOW_LISTS

UP, DOWN = when("$.year", "GREATER_THAN", 10), when("$.year", "LESS_THAN", 5)
NAMES = st.sampled_from(["A", "B", "C", "", "X"])
CRITERIA = st.sampled_from([None, UP, DOWN, {"type": "odd"}, when("$.year", "NEARLY", 1), when("$..x", "EQUALS", 1), 7])
PROCESSORS = st.lists(
    st.fixed_dictionaries(
        {"name": NAMES, "type": st.sampled_from(["EXTERNAL", "odd", 1])},
        optional={
            "executionMode": st.sampled_from(["SYNC", "LATER", "COMMIT_BEFORE_DISPATCH"]),
            "startNewTxOnDispatch": st.booleans(),
            "annotations": st.sampled_from([{}, 1, {"statewright": {"retry": {}}}, {"statewright": {"x": 1}}]),
        },
    ),
    max_size=1,
)
TRANSITIONS = st.lists(
    st.fixed_dictionaries(
        {"name": NAMES, "next": NAMES},
        optional={
            "manual": st.booleans(),
            "disabled": st.booleans(),
            "criterion": CRITERIA,
            "processors": PROCESSORS,
            "schedule": st.sampled_from([{"delayMs": 5}, {"delayMs": 0}, {}]),
            "odd": st.just(1),
        },
    ),
    max_size=2,
)
WORKFLOWS = st.fixed_dictionaries(
    {
        "version": st.sampled_from(["1", "1.0", "1.1", "1.3", "1.9", "2.0", "draft"]),
        "name": st.sampled_from(["w", "v", ""]),
        "initialState": NAMES,
        "states": st.dictionaries(NAMES, st.fixed_dictionaries({"transitions": TRANSITIONS}), max_size=3),
    },
    optional={"active": st.booleans(), "criterion": CRITERIA, "annotations": st.sampled_from([{}, 1])},
)
FRAMES = st.fixed_dictionaries(
    {},
    optional={
        "importMode": st.sampled_from(["MERGE", "REPLACE", "ACTIVATE", "odd"]),
        "allowCycles": st.booleans(),
        "entityName": st.sampled_from(["prize", "prize", "other"]),
        "odd": st.just(1),
    },
)
SOUND_FRAMES = st.fixed_dictionaries(
    {}, optional={"importMode": st.sampled_from(["MERGE", "REPLACE", "ACTIVATE"]), "allowCycles": st.booleans()}
)


def join(listed: list[JsonObject], frame: JsonObject) -> JsonObject:
    return {"workflows": listed, **frame}


DOCUMENTS = st.builds(join, st.lists(WORKFLOWS, max_size=2), FRAMES) | st.builds(join, WORKFLOW_LISTS, SOUND_FRAMES)
"""About half of them can be imported."""
