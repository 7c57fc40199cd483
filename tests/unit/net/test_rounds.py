"""Joins in rounds (docs/reference/kernel.md#rounds)."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from statewright.net import Net, NodeId, RoundJoin, Task
from statewright.net.effects import Injected, Patched, TaskCompleted, Trace
from statewright.net.nodes import rank_nodes
from tests.unit.net.builders import Player
from tests.unit.net.routed import a_step, at, routed, tell
from tests.unit.net.strategies import routed_nets

WORK = Task("work")


def a_join(count: int | None = None, left_over: str = "FAIL", **members: object) -> Net:
    """``a``, ``b`` and ``c`` are done by workers, and meet at ``m``."""
    sources = [a_step(name, "m", activity=WORK) for name in "abc"]
    return routed(
        a_step("s", "a", "b", "c"),
        *sources,
        a_step("m", join=("a", "b", "c"), count=count, left_over=left_over, activity=WORK),
        **members,
    )


def send(player: Player, *names: str) -> list[str]:
    told: list[str] = []
    for name in names:
        if not player.open_at(name):
            player.play(Injected(NodeId(name)))
        told += tell(player.play(TaskCompleted(player.open_at(name)[0], name)).effects)
    return told


def test_a_round_fires_when_all_have_arrived_with_what_they_bring_in_the_order_of_the_sources():
    player = Player(a_join()).start()
    assert send(player, "c", "a") == ["+m", "+m"]
    assert send(player, "b") == ["+m", "&m", "m"]
    assert player.inputs("m") == ["a+b+c"]


def test_a_second_token_of_a_source_waits_for_the_next_round():
    player = Player(a_join()).start()
    assert send(player, "a", "a", "b") == ["+m", "+m", "+m"]
    assert send(player, "c") == ["+m", "&m", "m"]
    assert at(player.marking, "WAITING") == ["m"]
    assert send(player, "c", "b") == ["+m", "+m", "&m", "m"]


def test_the_first_fires_and_the_rest_is_absorbed():
    player = Player(a_join(1)).start()
    assert send(player, "b") == ["+m", "&m", "m"]
    assert send(player, "a", "c") == ["+m", "~m", "+m", "~m"]
    assert player.marking.rounds == ()


def test_after_the_last_absorbed_token_the_next_round_begins():
    """``a`` came twice: its second token fires the round that follows."""
    player = Player(a_join(1)).start()
    assert send(player, "a", "a") == ["+m", "&m", "m", "+m"]
    assert send(player, "b", "c") == ["+m", "~m", "+m", "~m", "&m", "m"]
    assert player.marking.rounds[0].arrived == ("a",)


def test_as_many_as_were_asked_for_fire():
    player = Player(a_join(2)).start()
    assert send(player, "c", "a", "b") == ["+m", "+m", "&m", "m", "+m", "~m"]


def test_tokens_from_elsewhere_fire_by_themselves():
    net = routed(
        a_step("s", "a", "x"),
        a_step("a", "m"),
        a_step("x", "m"),
        a_step("b", "m"),
        a_step("m", join=("a", "b")),
    )
    player = Player(net).start()
    assert tell(player.effects)[4:9] == ["a", "+m", "x", "+m", "m"]
    player = Player(a_join()).start()
    assert tell(player.play(Injected(NodeId("m"), ("x",))).effects) == ["+m", "m"]


def test_the_joined_token_must_be_admitted():
    net = routed(a_step("s", "a", "b"), a_step("a", "m"), a_step("b", "m"), a_step("m", join=("a", "b"), when="open"))
    player = Player(net).start()
    assert tell(player.effects)[-3:] == ["&m", "!m", "WAITING"]
    assert tell(player.play(Patched({"open": 1})).effects) == ["RUNNING", "m", "COMPLETED"]


@pytest.mark.parametrize(
    ("left_over", "told", "phase"),
    [
        ("FAIL", ["-m", "FAILED"], "FAILED"),
        ("FIRE", ["&m", "m", "COMPLETED"], "COMPLETED"),
        ("DISCARD", ["-m", "COMPLETED"], "COMPLETED"),
    ],
)
def test_a_round_that_nothing_completes_is_decided_about_when_all_is_quiet(left_over: str, told: list[str], phase: str):
    net = routed(
        a_step("s", "a", "b"),
        a_step("a", "m"),
        a_step("b", "zzz->m"),
        a_step("m", join=("a", "b"), left_over=left_over),
    )
    player = Player(net).start()
    assert tell(player.effects)[-len(told) :] == told
    assert player.marking.phase == phase


def test_joins_are_left_alone_while_a_token_that_waits_may_still_feed_them():
    net = routed(
        a_step("s", "a", "b"),
        a_step("a", "m"),
        a_step("b", "m", when="open"),
        a_step("m", join=("a", "b")),
    )
    player = Player(net).start()
    assert (player.marking.phase, at(player.marking, "WAITING")) == ("WAITING", ["m"])
    assert tell(player.play(Patched({"open": 1})).effects) == ["RUNNING", "b", "+m", "&m", "m", "COMPLETED"]


def two_joins(first: str, second: str, **members: object) -> Net:
    """``m`` never gets the token of ``b``; ``n``, which waits for ``m`` and ``c``, comes after it."""
    return routed(
        a_step("s", "c", "a", "b"),
        a_step("a", "m"),
        a_step("b", "zzz->m"),
        a_step("c", "n"),
        a_step("n", join=("m", "c"), left_over=second),
        a_step("m", "n", join=("a", "b"), left_over=first),
        **members,
    )


@pytest.mark.parametrize("second", ["FAIL", "FIRE", "DISCARD"])
def test_a_join_behind_one_that_fires_with_what_came_is_complete_and_runs_once(second: str):
    player = Player(two_joins("FIRE", second)).start()
    assert tell(player.effects)[-6:] == ["&m", "m", "+n", "&n", "n", "COMPLETED"]
    assert player.marking.tally.failed == 0


def test_joins_that_nothing_feeds_any_more_fail_each_once():
    player = Player(two_joins("FAIL", "FAIL")).start()
    assert tell(player.effects)[-3:] == ["-n", "-m", "FAILED"]
    assert [failure.node for failure in player.marking.tally.failures] == ["n", "m"]


def test_what_a_fired_round_brings_completes_the_next_one():
    """``a`` came twice, ``b`` comes when ``m`` has fired with the first: the second must wait for it."""
    net = routed(
        a_step("s", "a", "a"), a_step("a", "m"), a_step("m", "b", join=("a", "b"), left_over="FIRE"), a_step("b", "m")
    )
    player = Player(net).start()
    fired = [trace.details for trace in player.told(Trace) if trace.kind == "join.fired"]
    assert [(each["sources"], each["leftOver"]) for each in fired[:2]] == [(["a"], True), (["a", "b"], False)]


@st.composite
def starving_nets(draw: st.DrawFn) -> Net:
    """Joins behind joins, in any order of the document, some of whose sources never send anything."""
    order = draw(st.permutations(range(1, 7)))
    names = ["n0", *(f"n{number}" for number in order)]
    ways = {
        name: [("zzz->" if draw(st.integers(0, 3)) == 0 else "") + each for each in later if draw(st.booleans())]
        for name, later in ((name, names[index + 1 :]) for index, name in enumerate(names))
    }
    left_over = st.sampled_from(["FIRE", "FIRE", "FAIL", "DISCARD"])
    sources = {each: tuple(name for name in names if {each, f"zzz->{each}"} & {*ways[name]}) for each in names}
    steps = [a_step(name, *ways[name], join=sources[name], left_over=draw(left_over)) for name in names]
    return routed(*steps)


@settings(max_examples=200, deadline=None)
@given(starving_nets() | routed_nets())
def test_no_join_is_decided_about_while_a_token_can_still_reach_it(net: Net):
    """Unless it leads to its own source, none of its sources sends it anything afterwards."""
    ranks = rank_nodes(net.nodes)
    player = Player(net).start()
    traces = player.told(Trace)
    while player.marking.phase == "RUNNING" and player.tasks:
        traces += player.play(TaskCompleted(next(iter(player.tasks)), "n")).told(Trace)
    decided: set[NodeId] = set()
    for trace in traces:
        if trace.kind in ("join.incomplete", "join.closed"):
            decided.add(trace.node)
        rule = net.nodes[trace.node].arrival
        if trace.kind != "token.created" or trace.node not in decided or not isinstance(rule, RoundJoin):
            continue
        if trace.details["cause"] == "join":
            continue
        source = trace.details["source"]
        assert source not in rule.sources or ranks[NodeId(str(source))] == ranks[trace.node]


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(st.integers(0, 6), st.lists(st.integers(0, 6), max_size=4), min_size=7))
def test_a_node_ranks_below_those_it_leads_to_and_beside_those_that_lead_back(ways: dict[int, list[int]]):
    nodes = {NodeId(str(name)): a_step(str(name), *map(str, targets)) for name, targets in ways.items()}
    ranks = rank_nodes(nodes)
    reached = {name: {name} for name in ways}
    for _ in ways:
        for name, targets in ways.items():
            reached[name] = reached[name].union(*(reached[target] for target in targets))
    for name in ways:
        for other in reached[name]:
            below = ranks[NodeId(str(name))] - ranks[NodeId(str(other))]
            assert below == 0 if name in reached[other] else below < 0
