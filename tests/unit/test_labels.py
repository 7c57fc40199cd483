"""Labels whose values come from users (docs/reference/metrics.md#runs)."""

from statewright.engine.callouts import RunMetrics
from statewright.entity import ModelKey
from statewright.telemetry.histogram import MAX_VALUE_CHARS, AnswerTimes, Count, LabelTable


def counted(table: LabelTable[Count]) -> dict[tuple[str, ...], int]:
    return {labels: count.value for labels, count in table}


def test_what_comes_first_is_told_apart_and_the_rest_is_one():
    table = LabelTable(2, Count)
    for name in ("a", "b", "c", "a", "d", "c"):
        table.find(name, "x").value += 1
    assert counted(table) == {("a", "x"): 2, ("b", "x"): 1, ("other", "other"): 3}


def test_without_any_room_everything_is_one():
    table = LabelTable(0, Count)
    for name in ("a", "b"):
        table.find(name).value += 1
    assert counted(table) == {("other",): 2}


def test_long_values_are_cut():
    table = LabelTable(5, Count)
    for end in ("x", "y"):
        table.find("a" * MAX_VALUE_CHARS + end).value += 1
    assert counted(table) == {("a" * MAX_VALUE_CHARS,): 2}


def test_only_the_models_that_are_wanted_have_room():
    metrics = RunMetrics(10, ("prize", "order/2"))
    for model in (ModelKey("prize", 1), ModelKey("prize", 2), ModelKey("order", 1), ModelKey("order", 2)):
        metrics.count_transition(model, "GO")
    assert counted(metrics.transitions) == {
        ("prize/1", "GO"): 1, ("prize/2", "GO"): 1, ("other", "other"): 1, ("order/2", "GO"): 1,
    }  # fmt: skip


def test_answers_are_summed_up_by_some_of_their_labels():
    times = AnswerTimes((0.1, 1.0))
    times.observe("GET", "/a", 200, 0.05)
    times.observe("GET", "/b", 200, 0.5)
    times.observe("PUT", "/a", 404, 2.0)
    by_method = times.sum_up(0)
    assert {labels: found.buckets for labels, found in by_method.items()} == {("GET",): [1, 1, 0], ("PUT",): [0, 0, 1]}
    assert {labels: found.count for labels, found in times.sum_up(1, 2).items()} == {
        ("/a", "200"): 1, ("/b", "200"): 1, ("/a", "404"): 1,
    }  # fmt: skip
    assert by_method["GET",].sum == 0.55
