"""Tenants share the processes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statewright.computations import ComputationLimits
from statewright.computations.pool import FairQueue
from statewright.failures import ComputationsBusy
from statewright.ids import TenantId

A, B, C = map(TenantId, "ABC")


def a_queue(*, processes: int = 2, share: int = 1, max_waiting: int = 10) -> FairQueue[str]:
    return FairQueue(processes=processes, share=share, max_waiting=max_waiting)


def take_all(queue: FairQueue[str]) -> list[str]:
    taken = iter(queue.take, None)
    return [work for _, work in taken]


def test_tenants_take_turns_whatever_each_of_them_has_waiting():
    queue = a_queue(processes=6, share=6)
    for tenant, work in ((A, "a1"), (A, "a2"), (A, "a3"), (B, "b1"), (C, "c1"), (C, "c2")):
        queue.add(tenant, work)
    assert take_all(queue) == ["a1", "b1", "c1", "a2", "c2", "a3"]


def test_also_alone_a_tenant_has_no_more_than_its_share():
    queue = a_queue(processes=4, share=2)
    for work in ("a1", "a2", "a3"):
        queue.add(A, work)
    assert take_all(queue) == ["a1", "a2"]
    assert queue.waiting == 1
    queue.add(B, "b1")
    assert take_all(queue) == ["b1"]
    queue.end(A)
    assert take_all(queue) == ["a3"]


def test_a_tenant_that_has_its_share_lets_others_pass():
    queue = a_queue(processes=2, share=1)
    for tenant, work in ((A, "a1"), (A, "a2"), (A, "a3"), (B, "b1"), (B, "b2")):
        queue.add(tenant, work)
    assert take_all(queue) == ["a1", "b1"]
    queue.end(B)
    assert take_all(queue) == ["b2"]
    queue.end(B)
    assert take_all(queue) == []
    queue.end(A)
    assert take_all(queue) == ["a2"]


def test_what_waits_can_be_taken_away_at_once():
    queue = a_queue()
    for tenant, work in ((A, "a1"), (A, "a2"), (B, "b1")):
        queue.add(tenant, work)
    assert queue.drain() == ["a1", "a2", "b1"]
    assert queue.waiting == 0
    assert take_all(queue) == []


@pytest.mark.parametrize(("processes", "share"), [(1, 1), (2, 1), (3, 1), (4, 2), (64, 32)])
def test_no_tenant_can_have_all_processes_where_there_are_several(processes: int, share: int):
    assert ComputationLimits(processes=processes).share == share


def test_of_each_tenant_only_so_many_wait():
    queue = a_queue(processes=1, max_waiting=2)
    queue.add(A, "running")
    assert take_all(queue) == ["running"]
    queue.add(A, "a1")
    queue.add(A, "a2")
    with pytest.raises(ComputationsBusy):
        queue.add(A, "a3")
    queue.add(B, "b1")
    assert queue.waiting == 3


def test_what_is_not_wanted_any_more_makes_room():
    queue = a_queue(processes=1, max_waiting=1)
    queue.add(A, "running")
    take_all(queue)
    queue.add(A, "a1")
    queue.discard(A, "a1")
    queue.discard(A, "running")
    queue.add(A, "a2")
    queue.end(A)
    assert take_all(queue) == ["a2"]


@given(st.lists(st.sampled_from("ABCx"), max_size=60))
def test_everything_is_begun_once_in_the_order_of_its_tenant_and_within_the_processes(steps: list[str]):
    queue = FairQueue[int](processes=3, share=1, max_waiting=100)
    asked: dict[str, list[int]] = {name: [] for name in "ABC"}
    begun: dict[str, list[int]] = {name: [] for name in "ABC"}
    running: list[str] = []

    def begin() -> None:
        while (taken := queue.take()) is not None:
            begun[taken[0]].append(taken[1])
            running.append(taken[0])
        assert len(running) <= 3
        assert len(set(running)) == len(running)
        waiting = {name for name in "ABC" if len(begun[name]) < len(asked[name])}
        assert waiting <= set(running)

    for number, step in enumerate(steps):
        if step != "x":
            asked[step].append(number)
            queue.add(TenantId(step), number)
        elif running:
            queue.end(TenantId(running.pop(0)))
        begin()
    while running:
        queue.end(TenantId(running.pop(0)))
        begin()
    assert begun == asked
