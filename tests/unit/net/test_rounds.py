"""Joins in rounds (docs/reference/kernel.md#rounds)."""

import pytest

from statewright.net import Net, NodeId, Task
from statewright.net.effects import Injected, Patched, TaskCompleted
from tests.unit.net.builders import Player
from tests.unit.net.routed import a_step, at, routed, tell

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
