"""Random workflows, as clients write them, that every check accepts."""

from decimal import Decimal

from hypothesis import strategies as st

from statewright.jsonval.values import JsonObject, JsonValue
from tests.unit.workflow.builders import STRICT

STATES = ("A", "B", "C", "dé pôt")
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=6)
NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=6)
MILLIS = st.integers(1, 10**9)

SCALARS: st.SearchStrategy[JsonValue] = (
    st.none() | st.booleans() | st.integers(-(10**30), 10**30) | TEXTS | st.decimals(-100, 100, places=3)
)
JSON: st.SearchStrategy[JsonValue] = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXTS, inner, max_size=2),
    max_leaves=4,
)
ANNOTATIONS = st.none() | st.dictionaries(TEXTS, JSON, max_size=2)

COMPARISONS = st.fixed_dictionaries(
    {
        "type": st.just("simple"),
        "jsonPath": st.sampled_from(["$.kind", "$.lines[*].weight"]),
        "operatorType": st.sampled_from(["EQUALS", "NOT_EQUAL", "CONTAINS"]),
        "value": TEXTS | st.integers() | st.just(Decimal("0.10")),
    }
)
CRITERIA = (
    COMPARISONS
    | st.fixed_dictionaries(
        {
            "type": st.just("group"),
            "operator": st.sampled_from(["AND", "OR"]),
            "conditions": st.lists(COMPARISONS, max_size=2),
        }
    )
    | st.just({"type": "function", "function": {"name": "f", "config": {"calculationNodesTags": "t", "own": [1]}}})
)
NO_CONDITIONS = st.just({"type": "oracle", "anything": {"goes": None}})


def criteria(contract: str) -> st.SearchStrategy[JsonObject]:
    """What a workflow of that contract may have; the first-release one takes anything."""
    return CRITERIA if contract == STRICT else CRITERIA | NO_CONDITIONS


FLAGS = st.none() | st.booleans()


def processors(contract: str) -> st.SearchStrategy[JsonObject]:
    """Valid in that contract. The flag is true only with ``COMMIT_BEFORE_DISPATCH``, in either place."""
    strict = contract == STRICT
    types = st.sampled_from(
        ["externalized", "internalized", "FUNCTION", ""] if strict else ["EXTERNAL", "externalized"]
    )
    modes = ["SYNC", "ASYNC_SAME_TX", "ASYNC_NEW_TX", "", None] + ([] if strict else ["EVENTUALLY"])
    policies = ["", "NONE", "FIXED"] + ([] if strict else ["EXPONENTIAL"])
    config = {
        "attachEntity": FLAGS,
        "calculationNodesTags": TEXTS,
        "responseTimeoutMs": st.integers(-(2**63), 2**63 - 1),
        "retryPolicy": st.sampled_from(policies),
        "context": TEXTS,
        "asyncResult": st.sampled_from([None, False]),
        "crossoverToAsyncMs": st.none(),
    }

    def of_mode(mode: str | None, flag: bool | None) -> st.SearchStrategy[JsonObject]:
        places = {"startNewTxOnDispatch": st.just(flag)}
        return st.fixed_dictionaries(
            {"name": NAMES, "executionMode": st.just(mode)},
            optional={
                "type": types,
                "annotations": ANNOTATIONS,
                "config": st.none() | st.fixed_dictionaries({}, optional=config | places),
                **places,
            },
        )

    segmenting = st.booleans().flatmap(lambda flag: of_mode("COMMIT_BEFORE_DISPATCH", flag))
    others = st.sampled_from(modes).flatmap(lambda mode: of_mode(mode, False))
    return segmenting | others


FUNCTIONS = st.fixed_dictionaries(
    {"name": NAMES, "resultKind": st.just("Schedule"), "calculationNodesTags": NAMES},
    optional={"attachEntity": FLAGS, "context": TEXTS, "responseTimeoutMs": st.integers(-5, 5)},
)
SCHEDULES = st.fixed_dictionaries(
    {"delayMs": MILLIS}, optional={"timeoutMs": st.none() | st.integers(-5, 10**6)}
) | st.fixed_dictionaries({"function": FUNCTIONS}, optional={"delayMs": st.integers(-5, 0)})


def transitions(contract: str) -> st.SearchStrategy[JsonObject]:
    """Named ``t``; to be renamed where several meet. None can be part of an endless loop."""
    members = {
        "disabled": FLAGS,
        "processors": st.none() | st.lists(processors(contract), max_size=2),
        "annotations": ANNOTATIONS,
        "criterionAnnotations": ANNOTATIONS,
    }
    target = {"name": st.just("t"), "next": st.sampled_from(STATES)}
    by_hand = {"manual": st.just(True)}
    guarded = {"criterion": criteria(contract)}
    return (
        st.fixed_dictionaries(target | by_hand, optional=members | {"criterion": st.none() | criteria(contract)})
        | st.fixed_dictionaries(target | guarded, optional=members | {"manual": FLAGS})
        | st.fixed_dictionaries(target | guarded | {"schedule": SCHEDULES}, optional=members)
    )


def states(contract: str) -> st.SearchStrategy[JsonObject]:
    def renamed(listed: list[JsonObject]) -> list[JsonObject]:
        return [transition | {"name": f"t{index}"} for index, transition in enumerate(listed)]

    ways = st.none() | st.lists(transitions(contract), max_size=2).map(renamed)
    state = st.fixed_dictionaries({}, optional={"transitions": ways, "annotations": ANNOTATIONS})
    return st.fixed_dictionaries(dict.fromkeys(STATES, state))


@st.composite
def workflows(draw: st.DrawFn) -> JsonObject:
    """A workflow of either contract."""
    version = draw(st.sampled_from(["1.1", "1.2", "1.3", "", "1", "1.0", "draft"]))
    contract = STRICT if version in ("1.1", "1.2", "1.3") else version
    members = {
        "desc": TEXTS,
        "active": FLAGS,
        "criterion": st.none() | criteria(contract),
        "criterionAnnotations": ANNOTATIONS,
        "annotations": ANNOTATIONS,
    }
    required = {"name": NAMES, "initialState": st.sampled_from(STATES), "states": states(contract)}
    return draw(st.fixed_dictionaries(required, optional=members)) | {"version": version}


WORKFLOW_LISTS = st.lists(workflows(), min_size=1, max_size=3, unique_by=lambda workflow: workflow["name"])
