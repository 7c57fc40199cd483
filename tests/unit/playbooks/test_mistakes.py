"""What a playbook says that cannot work, or seldom is meant, is found where it stands, and nothing else is."""

import re
from pathlib import Path
from time import process_time

import pytest
import yaml

from statewright.playbooks import Reading, compile_playbook, read_playbook
from statewright.playbooks.reading import restore_playbook
from statewright.playbooks.source import PlaybookSource, compile_source

ROOT = Path(__file__).parents[3]
CASES = yaml.safe_load((ROOT / "tests" / "conformance" / "playbooks" / "mistakes.yaml").read_text())
HEADER = "metadata: {name: example}\n"
PAGES = [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md"]
EXAMPLES = [
    block
    for page in PAGES
    for block in re.findall(r"```ya?ml\n(.*?)```", page.read_text(), re.DOTALL)
    if "- step:" in block
]
FILES = [path.read_text() for path in sorted((ROOT / "examples" / "playbooks").glob("*.yaml"))]
HABITS = re.compile(r"has no when, so it is taken")
"""Warnings that some examples are meant to have."""


def list_findings(reading: Reading) -> list[tuple[str, str, str]]:
    return [(one.severity, one.path, one.message) for one in (*reading.errors, *reading.warnings)]


@pytest.mark.parametrize("case", CASES, ids=[case["title"] for case in CASES])
def test_mistakes_are_found_where_they_stand(case: dict[str, str | list[list[str]]]) -> None:
    found = [one for one in list_findings(read_playbook(f"{HEADER}{case['playbook']}")) if not HABITS.search(one[2])]
    assert sorted((severity, path) for severity, path, _ in found) == sorted((s, p) for s, p, _ in case["finds"])
    for severity, path, told in case["finds"]:
        assert any((severity, path) == one[:2] and told in one[2] for one in found), found


def test_there_are_sixty_mistakes() -> None:
    assert sum(bool(case["finds"]) for case in CASES) >= 60


@pytest.mark.parametrize("text", [*EXAMPLES, *FILES])
def test_no_example_gives_a_false_alarm(text: str) -> None:
    found = list_findings(read_playbook(text if "metadata:" in text else HEADER + text))
    assert [one for one in found if not HABITS.search(one[2])] == []


@pytest.mark.parametrize("case", CASES, ids=[case["title"] for case in CASES])
def test_a_playbook_that_was_registered_before_goes_on(case: dict[str, str]) -> None:
    process = compile_source(PlaybookSource(text=f"{HEADER}{case['playbook']}"), 1)
    assert process.read.warnings == ()


def test_names_that_only_a_request_can_give_a_value_are_kept_for_the_log() -> None:
    text = f"{HEADER}workflow: [{{step: a, set: {{x: '{{{{ who }}}}', y: '{{{{ who }}}}'}}, tool: {{kind: noop}}}}]"
    doubtful = compile_playbook(text).doubtful
    assert [(one.step, one.path, one.name) for one in doubtful] == [
        ("a", "/workflow/0/set/x", "who"),
        ("a", "/workflow/0/set/y", "who"),
    ]


@pytest.mark.parametrize("scope", ["ctx", "workload"])
def test_names_that_are_near_to_many_are_compared_in_little_time(scope: str) -> None:
    """Each of 900 uses is like each of 200 names, as far as their letters go."""
    like, known = "a" * 40, [f"{n:04d}bcdefgh" for n in range(200)]
    written = ", ".join(f"{like}{name}: 1" for name in known)
    uses = " ".join(f"{{{{ {scope}.{like}{n:04d}hgfedcb }}}}" for n in range(900))
    first = f"{{step: one, set: {{{written}}}, next: {{arcs: [{{step: two}}]}}}}"
    text = f"{HEADER}workload: {{{written}}}\nworkflow: [{first}, {{step: two, set: {{y: '{uses}'}}}}]"
    begin = process_time()
    restore_playbook(text)
    read = process_time()
    assert read_playbook(text).errors == ()
    assert process_time() - read < 2 * (read - begin) + 1


def test_the_largest_playbooks_are_reviewed_in_little_time() -> None:
    """Steps lead to many others, joins wait for all that lead to them, and templates name what is not there."""
    steps = [
        f"{{step: s{n}, spec: {{join: {{}}}}, set: {{x: '{{{{ nothing{n} }}}}'}}, next: {{arcs: ["
        + ", ".join(f"{{step: s{(n + k) % 700}, when: ctx.x}}" for k in range(45))
        + "]}}"
        for n in range(700)
    ]
    text = f"{HEADER}workflow: [{', '.join(steps)}]"
    assert len(text) < 1024 * 1024
    begin = process_time()
    restore_playbook(text)
    read = process_time()
    assert read_playbook(text).errors == ()
    assert process_time() - read < 2 * (read - begin) + 1
