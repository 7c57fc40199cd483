"""Definitions as hypothesis makes them up."""

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from statewright.jsonval.values import JsonObject, JsonValue
from tests.unit.steps.builders import (
    a_definition,
    a_rule,
    a_step,
    decision,
    end,
    fork,
    join,
    service,
    table,
    timer,
    transformation,
    user,
    wait,
)

GUARDS = st.sampled_from(
    ["n > 2", "n <= 2", "flag", "!flag", "true", "false", "n", "missing", "((", "n % 2 == 0", "int(n) % 2 == 0"]
)
VALUES: SearchStrategy[JsonValue] = st.sampled_from(
    ["${n + 1}", "${!flag}", "${missing}", 1, True, "text", {"a": [None]}]
)
NAMES = st.sampled_from(["n", "flag", "x"])
COLUMNS = st.sampled_from(["a", "b"])
CELLS = GUARDS | st.just("")
DURATIONS = st.sampled_from(["PT0S", "PT1H", "P1M"])
POLICIES = st.sampled_from(["", "U", "F", "A", "R", "C", "C+", "C#", "C>", "C<"])
FEW = st.integers(0, 2)
SOME = st.integers(1, 3)
TARGETS = st.integers(0, 6)
CHANCES = st.booleans()


@st.composite
def documents(draw: DrawFn) -> JsonObject:
    """Any definition that can be read: jumps anywhere, joins without gateways, loops, dead ends."""
    size = draw(st.integers(1, 7))
    steps = [draw(st.sampled_from(MAKERS))(draw, f"s{n}", size) for n in range(size)]
    chained: JsonObject = {"autoStartNextWorkflow": True, "nextWorkflowId": "next"}
    return a_definition(*steps, **(chained if draw(CHANCES) else {}))


def _target(draw: DrawFn, size: int) -> str:
    return f"s{draw(TARGETS) % size}"


def _maybe_target(draw: DrawFn, size: int) -> str | None:
    return _target(draw, size) if draw(CHANCES) else None


def _branches(draw: DrawFn, size: int, count: int) -> dict[str, str]:
    return {draw(GUARDS): _target(draw, size) for _ in range(count)}


def _timers(draw: DrawFn, size: int) -> list[JsonValue]:
    return [timer(draw(DURATIONS), _target(draw, size), interrupting=draw(CHANCES)) for _ in range(draw(FEW))]


def _values(draw: DrawFn) -> JsonObject:
    return {draw(NAMES): draw(VALUES) for _ in range(draw(SOME))}


def _service(draw: DrawFn, step_id: str, size: int) -> JsonObject:
    return service(
        step_id,
        _maybe_target(draw, size),
        boundaryEvents=_timers(draw, size),
        conditionalNextSteps={**_branches(draw, size, draw(FEW))},
        retryCount=draw(FEW),
    )


def _user(draw: DrawFn, step_id: str, size: int) -> JsonObject:
    return user(step_id, _maybe_target(draw, size), boundaryEvents=_timers(draw, size))


def _wait(draw: DrawFn, step_id: str, size: int) -> JsonObject:
    return wait(step_id, _target(draw, size), boundaryEvents=_timers(draw, size))


def _decision(draw: DrawFn, step_id: str, size: int) -> JsonObject:
    return decision(step_id, _branches(draw, size, draw(SOME)))


def _transformation(draw: DrawFn, step_id: str, size: int) -> JsonObject:
    return transformation(step_id, _target(draw, size), **_values(draw))


def _table(draw: DrawFn, step_id: str, size: int) -> JsonObject:
    rules = [a_rule({draw(COLUMNS): draw(CELLS) for _ in range(draw(FEW))}, **_values(draw)) for _ in range(draw(SOME))]
    return table(step_id, _target(draw, size), *rules, hitPolicy=draw(POLICIES))


def _fork(draw: DrawFn, step_id: str, size: int) -> JsonObject:
    return fork(step_id, _target(draw, size), *(_target(draw, size) for _ in range(1 + draw(SOME))))


def _join(draw: DrawFn, step_id: str, size: int) -> JsonObject:
    return join(step_id, _target(draw, size))


def _end(_: DrawFn, step_id: str, __: int) -> JsonObject:
    return end(step_id)


MAKERS = [_service, _user, _wait, _decision, _transformation, _table, _fork, _fork, _join, _join, _end]


class Block:
    """A piece of a well-formed definition: steps that are entered at the first one and go on to ``next_step``."""

    def __init__(self) -> None:
        self.steps: list[JsonObject] = []
        self.forks: dict[str, int] = {}
        """Gateways by id, with the number of their branches."""
        self._count = 0

    def name(self, kind: str) -> str:
        self._count += 1
        return f"{kind}{self._count}"


@st.composite
def well_formed(draw: DrawFn) -> tuple[JsonObject, dict[str, int]]:
    """A definition of sequences, parallel blocks and harmless decisions, in which every branch reaches its join."""
    block = Block()
    entry = draw_block(draw, block, "end", depth=3)
    first = next(step for step in block.steps if step["id"] == entry) if entry != "end" else end()
    others = [step for step in [*block.steps, end()] if step["id"] != first["id"]]
    return a_definition(first, *others), block.forks


def draw_block(draw: DrawFn, block: Block, next_step: str, *, depth: int) -> str:
    """The id of the step where the block is entered."""
    entry = next_step
    for _ in range(draw(st.integers(1, 3))):
        entry = _draw_piece(draw, block, entry, depth)
    return entry


def _draw_piece(draw: DrawFn, block: Block, next_step: str, depth: int) -> str:
    kind = draw(st.sampled_from(["task", "person", "signal", "set", "choice", *(["fork"] * 2 if depth else [])]))
    name = block.name(kind)
    match kind:
        case "task":
            block.steps.append(service(name, next_step))
        case "person":
            block.steps.append(user(name, next_step))
        case "signal":
            block.steps.append(wait(name, next_step))
        case "set":
            block.steps.append(transformation(name, next_step, **{name: True}))
        case "choice":
            other = block.name("task")
            block.steps += [decision(name, {"n > 2": other, "true": next_step}), service(other, next_step)]
        case _:
            _draw_fork(draw, block, name, next_step, depth)
    return name


def _draw_fork(draw: DrawFn, block: Block, name: str, next_step: str, depth: int) -> None:
    joined = block.name("join")
    branches = [
        draw(st.just(joined) | st.just("")) or draw_block(draw, block, joined, depth=depth - 1)
        for _ in range(draw(st.integers(2, 3)))
    ]
    block.forks[joined] = len(branches)
    block.steps += [a_step(name, "PARALLEL_GATEWAY", joinStep=joined, parallelNextSteps=[*branches])]
    block.steps.append(join(joined, next_step))
