"""Figures of the code only get better (docs/architecture.md#size)."""

import tomllib
from functools import cache

from scripts.house_figures import measure_house
from scripts.measure_code import (
    GOALS,
    HERE,
    enter_better,
    format_figures,
    is_reached,
    judge,
    judge_house,
    judge_walks,
    read_figures,
)

NOW = cache(measure_house)
CODE = {"size": {"code_lines": 1000, "tests_per_code": 0.8}}


def test_no_figure_has_become_worse_and_every_better_one_is_entered() -> None:
    assert judge_house(NOW(HERE), read_figures()) == []


def test_a_worse_figure_is_named() -> None:
    assert judge("files.files", 12, 10) == "files.files has become worse: 12, and was 10"
    assert judge("size.tests_per_code", 0.7, 0.8, higher_is_better=True) is not None


def test_a_better_figure_asks_to_be_entered() -> None:
    complaint = judge("files.files", 9, 10)
    assert complaint is not None
    assert "enter it" in complaint


def test_the_same_figure_is_fine() -> None:
    assert judge("files.files", 10, 10) is None
    assert judge("walk.calls", 104, 100, tolerance=0.05) is None
    assert judge("walk.calls", 106, 100, tolerance=0.05) is not None


def test_one_line_more_is_worse_and_one_less_need_not_be_entered() -> None:
    now = NOW(HERE)
    lines = now["size"]["code_lines"]
    assert judge_house(now, now) == []
    assert judge_house(now, {**now, "size": {**now["size"], "code_lines": lines + 1}}) == []
    [worse] = judge_house(now, {**now, "size": {**now["size"], "code_lines": lines - 1}})
    assert "size.code_lines has become worse" in worse
    [missing] = judge_house(now, {group: named for group, named in now.items() if group != "kernel"})
    assert missing == "kernel.names_in_net is not in code_figures.toml"


def test_files_of_walks_are_held_exactly_and_calls_roughly() -> None:
    committed = {"walk_get": {"files": 28, "calls": 100}}
    assert judge_walks({"walk_get": {"files": 28, "calls": 104}}, committed) == []
    assert len(judge_walks({"walk_get": {"files": 29, "calls": 106}}, committed)) == 2
    assert judge_walks({"walk_get": {"files": 27, "calls": 100}}, committed) == []
    assert len(judge_walks({"walk_get": {"files": 26, "calls": 100}}, committed)) == 1
    assert judge_walks({"walk_put": {"files": 27}}, committed) == ["walk_put.files is not in code_figures.toml"]


def test_what_is_worse_is_not_entered() -> None:
    worse = {"size": {"code_lines": 1001, "tests_per_code": 0.7}}
    better = {"size": {"code_lines": 999, "tests_per_code": 0.9}, "walk_get": {"files": 28}}
    assert enter_better(worse, CODE) == CODE
    assert enter_better(better, CODE) == better
    assert enter_better({}, CODE) == CODE


def test_figures_are_read_as_they_are_written() -> None:
    committed = read_figures()
    assert format_figures(committed) == (HERE / "scripts" / "code_figures.toml").read_text()


def test_a_goal_is_reached_or_says_why_it_is_missed() -> None:
    committed = read_figures()
    for group, named in tomllib.loads(GOALS.read_text()).items():
        for name, row in named.items():
            assert ("missed" in row) != is_reached(group, name, committed[group][name], row["goal"]), f"{group}.{name}"
