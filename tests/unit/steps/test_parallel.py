"""PARALLEL_GATEWAY and JOIN_GATEWAY (docs/reference/steps.md#parallel-branches, decision J3)."""

from itertools import permutations

import pytest

from tests.unit.steps.builders import (
    a_process,
    decision,
    end,
    fork,
    join,
    service,
    timer,
    transformation,
    user,
    wait,
)
from tests.unit.steps.world import World

TWO_BRANCHES = (fork("fork", "join", "a", "b"), service("a", "join"), service("b", "join"), join("join", "after"))


def test_branches_are_entered_in_list_order_and_the_join_waits_for_all():
    world = World(a_process(*TWO_BRANCHES, service("after", "end"), end())).start()
    assert (world.queue, world.at) == (["a", "b"], ["a", "b"])
    world.complete("b")
    assert world.at == ["a", "join"]
    world.complete("a")
    assert world.at == ["after"]


def test_every_arrival_is_a_line_of_the_history():
    world = World(a_process(*TWO_BRANCHES, end("after"))).start().complete("a").complete("b")
    assert [line for line in world.history if line.startswith("join")] == ["join#1 COMPLETED", "join#2 COMPLETED"]


def test_the_last_result_wins_per_key():
    world = World(a_process(*TWO_BRANCHES, end("after"))).start().complete("b", x="b").complete("a", x="a", y=1)
    assert world.variables == {"x": "a", "y": 1}


@pytest.mark.parametrize("order", list(permutations(["a2", "b", "c"])))
def test_branches_of_any_length_and_kind_are_joined(order: tuple[str, ...]):
    world = World(
        a_process(
            fork("fork", "join", "a1", "b", "c"),
            transformation("a1", "a2", x=1),
            service("a2", "a3"),
            decision("a3", {"true": "join"}),
            user("b", "join"),
            wait("c", "join"),
            join("join", "end"),
            end(),
        )
    ).start()
    finish = {"a2": lambda: world.complete("a2"), "b": lambda: world.finish_task("b"), "c": lambda: world.signal("c")}
    for step in order:
        assert world.status != "COMPLETED"
        finish[step]()
    assert world.status == "COMPLETED"


def test_branches_that_need_nobody_are_joined_at_once():
    world = World(
        a_process(
            fork("fork", "join", "a", "b"),
            transformation("a", "join", x=1),
            transformation("b", "join", y="${x + 1}"),
            join("join", "end"),
            end(),
        )
    ).start()
    assert (world.status, world.variables) == ("COMPLETED", {"x": 1, "y": 2})


def test_duplicate_branch_targets_give_two_tokens_at_one_step():
    world = World(a_process(fork("fork", "join", "a", "a"), service("a", "join"), join("join", "end"), end())).start()
    assert (world.queue, world.at) == (["a", "a"], ["a"])
    assert world.complete("a").at == ["a", "join"]
    assert world.complete("a").status == "COMPLETED"


def test_nested_gateways_are_joined_from_the_inside_out():
    world = World(
        a_process(
            fork("outer", "outer-join", "inner", "c"),
            fork("inner", "inner-join", "a", "b"),
            service("a", "inner-join"),
            service("b", "inner-join"),
            join("inner-join", "d"),
            service("d", "outer-join"),
            service("c", "outer-join"),
            join("outer-join", "end"),
            end(),
        )
    ).start()
    world.complete("c").complete("a")
    assert world.at == ["b", "outer-join", "inner-join"]
    world.complete("b")
    assert world.at == ["outer-join", "d"]
    assert world.complete("d").status == "COMPLETED"


def test_nested_gateways_may_share_their_join():
    world = World(
        a_process(
            fork("outer", "join", "inner", "c"),
            fork("inner", "join", "a", "b"),
            service("a", "join"),
            service("b", "join"),
            service("c", "join"),
            join("join", "after"),
            service("after", "end"),
            end(),
        )
    ).start()
    world.complete("a").complete("b")
    assert world.at == ["c", "join"]
    assert world.complete("c").queue == ["after"]


def test_a_shared_join_waits_for_the_inner_branches_even_when_the_outer_ones_have_come():
    world = World(
        a_process(
            fork("outer", "join", "inner", "c"),
            fork("inner", "join", "a", "b"),
            service("a", "join"),
            service("b", "join"),
            service("c", "join"),
            join("join", "after"),
            service("after", "end"),
            end(),
        )
    ).start()
    world.complete("a").complete("c")
    assert world.at == ["b", "join"]
    assert world.complete("b").queue == ["after"]


def test_two_arrivals_of_one_branch_do_not_stand_for_two_branches():
    world = World(
        a_process(
            fork("fork", "join", "a", "b"),
            user("a", "join", boundaryEvents=[timer("PT1H", "late")]),
            service("late", "join"),
            service("b", "join"),
            join("join", "after"),
            service("after", "end"),
            end(),
        )
    ).start()
    world.fire().complete("late").finish_task("a")
    assert world.at == ["b", "join"]
    assert world.complete("b").at == ["after"]


def test_an_inner_branch_that_goes_straight_to_the_outer_join_counts_for_the_outer_branch():
    world = World(
        a_process(
            fork("outer", "outer-join", "inner", "c"),
            fork("inner", "inner-join", "a", "b"),
            service("a", "outer-join"),
            service("b", "inner-join"),
            join("inner-join", "outer-join"),
            service("c", "outer-join"),
            join("outer-join", "end"),
            end(),
        )
    ).start()
    assert world.complete("a").complete("c").status == "COMPLETED"


def test_a_new_pass_over_a_gateway_is_a_new_activation():
    world = World(
        a_process(
            fork("fork", "join", "a", "b"),
            service("a", "join"),
            service("b", "join"),
            join("join", "again"),
            decision("again", {"n < 3": "fork", "true": "end"}),
            end(),
        )
    ).start(n=0)
    for n in (1, 2, 3):
        assert world.queue == ["a", "b"]
        world.complete("a", n=n).complete("b")
    assert world.status == "COMPLETED"


def test_a_branch_that_leaves_for_a_step_without_a_way_on_keeps_the_join_waiting():
    world = World(
        a_process(
            fork("fork", "join", "a", "b"),
            decision("a", {"true": "aside"}),
            service("aside"),
            service("b", "join"),
            join("join", "end"),
            end(),
        )
    ).start()
    world.complete("aside").complete("b")
    assert (world.status, world.at) == ("ACTIVE", ["aside", "join"])


def test_a_branch_that_reaches_an_end_completes_the_instance_and_withdraws_the_others():
    world = World(
        a_process(
            fork("fork", "join", "a", "b", "c"),
            service("a", "early"),
            service("b", "join", boundaryEvents=[timer("PT1H", "early")]),
            user("c", "join"),
            join("join", "end"),
            end(),
            end("early"),
        )
    ).start()
    world.complete("a")
    assert (world.status, world.at) == ("COMPLETED", [])
    assert world.history[1:] == ["a#1 COMPLETED", "b#1 SKIPPED", "c#1 SKIPPED", "early#1 COMPLETED"]
    assert sorted(world.closed_jobs.values()) == ["CANCELLED", "COMPLETED"]
    assert [*world.closed_tasks.values(), *world.closed_timers.values()] == ["CANCELLED", "disarmed"]


def test_branches_that_were_not_yet_entered_are_not_once_the_instance_is_over():
    world = World(
        a_process(fork("fork", "join", "early", "b"), service("b", "join"), join("join", "end"), end(), end("early"))
    ).start()
    assert (world.status, world.history) == ("COMPLETED", ["fork#1 COMPLETED", "early#1 COMPLETED"])


def test_an_interrupting_timer_moves_the_token_of_its_branch():
    world = World(
        a_process(
            fork("fork", "join", "a", "b"),
            service("a", "join", boundaryEvents=[timer("PT1H", "late", interrupting=True)]),
            service("late", "join"),
            service("b", "join"),
            join("join", "end"),
            end(),
        )
    ).start()
    world.fire().complete("b")
    assert world.at == ["late", "join"]
    assert world.complete("late").status == "COMPLETED"


def test_the_extra_token_of_a_timer_belongs_to_the_branch_and_marks_it():
    world = World(
        a_process(
            fork("fork", "join", "a", "b"),
            user("a", "join", boundaryEvents=[timer("PT1H", "late")]),
            service("late", "join"),
            service("b", "join"),
            join("join", "after"),
            service("after", "end"),
            end(),
        )
    ).start()
    world.fire().complete("late").complete("b")
    assert world.at == ["a", "after"]
    world.finish_task("a")
    assert (world.at, world.queue) == (["after"], ["after"]), "the second arrival of a branch is absorbed"
    assert [line for line in world.history if line.startswith("join")] == [f"join#{n} COMPLETED" for n in (1, 2, 3)]


def test_a_join_that_no_gateway_led_to_fails_the_instance():
    world = World(a_process(join("j", "end"), end())).start()
    assert world.reason == 'join step "j": no matching PARALLEL_GATEWAY found'
    assert (world.history, world.at) == (["j#1 FAILED"], ["j"])


def test_a_gateway_whose_join_is_no_join_sends_every_branch_on_alone():
    world = World(a_process(fork("fork", "after", "a", "a"), service("a", "after"), service("after"), end()))
    world.start().complete("a").complete("a")
    assert world.queue == ["after", "after"]
