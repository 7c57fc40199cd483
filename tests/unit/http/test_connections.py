"""Which connections without a request make room when a port is nearly full."""

from hypothesis import given
from hypothesis import strategies as st

from statewright.api.http.connections import MIN_SILENCE_MS, choose_silence

SILENCES = st.lists(st.integers(0, 100_000), max_size=200)


@given(SILENCES, st.integers(0, 200))
def test_nothing_is_closed_while_there_is_room(silences: list[int], limit: int):
    assert (choose_silence(silences, limit) is None) == (len(silences) <= limit)


@given(SILENCES, st.integers(0, 100))
def test_the_most_silent_go_and_as_many_as_are_too_many(silences: list[int], limit: int):
    silence = choose_silence(silences, limit)
    if silence is not None:
        left = [silent for silent in silences if silent < silence]
        assert len(left) <= limit or silence == MIN_SILENCE_MS


@given(SILENCES, st.integers(0, 100))
def test_what_was_heard_a_moment_ago_stays(silences: list[int], limit: int):
    silence = choose_silence(silences, limit)
    assert silence is None or silence >= MIN_SILENCE_MS
