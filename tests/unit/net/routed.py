"""Small nets whose tokens take turns and whose failures are routed."""

from statewright.net import ROUTE, Admission, Arc, Delay, Marking, Net, Node, NodeId, RoundJoin, Routing, judge_branches
from statewright.net.effects import ChangePhase, Effect, RecordEntry, Trace
from statewright.net.nodes import Activity, AnyInput
from tests.unit.net.builders import NOTHING, a_net

A_SECOND = Delay(0, 1_000_000)


def a_step(
    name: str,
    *targets: str,
    activity: Activity = NOTHING,
    when: str | None = None,
    denies: str = "WAIT",
    join: tuple[str, ...] = (),
    count: int | None = None,
    left_over: str = "FAIL",
    limit: Delay | None = None,
    mode: str = "EVERY",
    unmatched: str | None = None,
) -> Node:
    """A node with arcs for every outcome, written ``target`` or ``guard->target``; ``when`` is its admission."""
    pairs = [target.rpartition("->") for target in targets]
    arcs = tuple(Arc(NodeId(target), guard if arrow else None, ("DONE", "FAILED")) for guard, arrow, target in pairs)
    sources = tuple(NodeId(source) for source in join)
    return Node(
        id=NodeId(name),
        arrival=RoundJoin(sources, count or len(join), left_over) if join else AnyInput(),  # type: ignore[arg-type]
        activity=activity,
        admission=None if when is None else Admission(rule=when, on_deny=denies),  # type: ignore[arg-type]
        time_limit=limit,
        routing=Routing(mode=mode, arcs=arcs, unmatched=unmatched),  # type: ignore[arg-type]
    )


def routed(*nodes: Node, **members: object) -> Net:
    """A net of them that starts at the first."""
    return a_net(*nodes, **({"on_failure": ROUTE, "ending": judge_branches, "capacity": 100} | members))


def tell(effects: tuple[Effect, ...]) -> list[str]:
    """What was decided, in short: ``+`` made, ``-`` discarded, ``!`` refused, ``&`` joined, names begun."""
    words = {"token.created": "+", "token.discarded": "-", "join.fired": "&", "join.absorbed": "~"}
    told = []
    for effect in effects:
        if isinstance(effect, RecordEntry) and effect.element is None:
            told.append(str(effect.node))
        elif isinstance(effect, ChangePhase):
            told.append(effect.phase)
        elif isinstance(effect, Trace) and effect.kind == "admission.evaluated" and not effect.details["allow"]:
            told.append(f"!{effect.node}")
        elif isinstance(effect, Trace) and effect.kind in words and effect.details.get("cause") != "join":
            told.append(f"{words[effect.kind]}{effect.node}")
    return told


def at(marking: Marking, stage: str) -> list[str]:
    return [str(token.node) for token in marking.tokens if token.stage == stage]
