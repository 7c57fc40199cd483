"""One limit for a whole shutdown, however many parts it has."""

from datetime import timedelta

from statewright.loop.background import ShutdownBudget


def test_all_of_it_is_left_until_the_shutdown_begins():
    now = [100.0]
    grace = ShutdownBudget(timedelta(seconds=10), lambda: now[0])
    now[0] += 60
    assert grace.remaining_s == 10


def test_what_one_part_takes_the_next_one_lacks():
    now = [100.0]
    grace = ShutdownBudget(timedelta(seconds=10), lambda: now[0])
    grace.begin()
    now[0] += 4
    grace.begin()  # another part says so, too
    assert grace.remaining_s == 6
    now[0] += 7
    assert grace.remaining_s == 0
