"""Print the figures that show whether the code stays easy to enter, and hold them: `python -m scripts.measure_code`.

Generated code (src/statewright/proto) is left out; the distributions beside the product (packages) have figures of
their own. Without arguments the figures of this checkout are printed, beside
those of scripts/code_figures.toml, which may only get better. Give ROOTs to compare other checkouts.

- ``--walks`` counts files and calls of eight requests as well, in a running service with a database
- ``--goals`` prints what folding the code was to come to, from scripts/code_goals.toml: before, now, goal
- ``--enter`` writes what is better into code_figures.toml; what is worse has to be entered by hand, with a reason

Beside the table (scripts/house_figures.py):

- functions named by a result: share of functions and methods (properties apart) whose first word is a participle
- names used twice: public classes and functions that several modules define under the same name
- places a column touches: how often entity.py, code and SQL of storage (migrations apart) name an entity column,
  `workflow_revision`
"""

import argparse
import ast
import json
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from scripts.house_figures import FIGURES, Number, measure_house
from scripts.read_tree import list_modules_beside

HERE = Path(__file__).resolve().parent.parent

IRREGULAR = {
    "begun",
    "bound",
    "broken",
    "built",
    "chosen",
    "done",
    "drawn",
    "found",
    "given",
    "gone",
    "held",
    "kept",
    "known",
}
IRREGULAR |= {"left", "lost", "made", "met", "seen", "sent", "shown", "spoken", "taken", "told", "written"}
"""Participles without -ed; forms that are verbs as well (read, set, put, cut, run, come) are not among them."""

NOT_PARTICIPLES = frozenset({"embed", "exceed", "feed", "need", "proceed", "seed", "speed", "unscaled"})
COLUMN = "workflow_revision"

COMMITTED = HERE / "scripts" / "code_figures.toml"
MEASURED_WALKS = HERE / "build" / "walks.json"
GOALS = HERE / "scripts" / "code_goals.toml"
HEADER = "# Figures of the code that may only get better; docs/architecture.md#size. Written by `make figures`.\n"
CALLS_TOLERANCE = 0.05
"""Share by which the calls of a walk differ from run to run."""
FILES_TOLERANCE = 1
"""Files that a walk may have fewer without being entered: work of the service itself falls into all times of one now
and then, and so into what they have in common.
"""
ENTERED_FROM = 0.005
"""A gain of a smaller share need not be entered at once."""

Committed = Mapping[str, Mapping[str, Number]]


def is_participle(name: str) -> bool:
    """Whether a function of this name is named by its result: its first word is a participle."""
    first = name.strip("_").split("_")[0]
    return first in IRREGULAR or (
        len(first) > 3 and bool(re.search(r"[^e]ed$", first)) and first not in NOT_PARTICIPLES
    )


def list_functions(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Every function and method with its qualified name; properties are left out, they may be participles."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            decorators = {getattr(item, "id", getattr(item, "attr", "")) for item in node.decorator_list}
            if not decorators & {"property", "cached_property", "setter"}:
                yield prefix + node.name, node
            yield from list_functions(node, f"{prefix}{node.name}.")
        elif isinstance(node, ast.ClassDef):
            yield from list_functions(node, f"{prefix}{node.name}.")
        else:
            yield from list_functions(node, prefix)


def list_modules(root: Path) -> list[Path]:
    """The modules of the package, generated ones left out."""
    package = root / "src" / "statewright"
    return sorted(path for path in package.rglob("*.py") if "proto" not in path.relative_to(package).parts)


def read_all_modules(root: Path) -> Iterator[tuple[str, ast.Module]]:
    """The trees of those modules, by their paths in the package, and of the distributions beside it."""
    for path in list_modules(root):
        yield path.relative_to(root / "src" / "statewright").as_posix(), ast.parse(path.read_text())
    for module in list_modules_beside(root):
        yield module.path, module.tree


def list_participles(root: Path) -> list[str]:
    """``path::Class.function`` of every function named by its result."""
    return [
        f"{path}::{name}"
        for path, tree in read_all_modules(root)
        for name, node in list_functions(tree)
        if is_participle(node.name)
    ]


def list_open_constants(root: Path) -> list[str]:
    """``path::NAME`` of module constants that are not declared ``Final``; type variables, and pairs, cannot be."""
    return [
        f"{path}::{node.targets[0].id}"
        for path, tree in read_all_modules(root)
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id.isupper()
        if not (isinstance(node.value, ast.Call) and getattr(node.value.func, "id", "") == "TypeVar")
    ]


def list_names_used_twice(root: Path) -> dict[str, int]:
    """Public top-level classes and functions by the number of modules that define them, from two modules on."""
    names: Counter[str] = Counter()
    for path in list_modules(root):
        body = ast.parse(path.read_text()).body
        names.update(
            {
                node.name
                for node in body
                if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
                and not node.name.startswith("_")
            }
        )
    return {name: count for name, count in names.items() if count > 1}


def count_places_of_column(root: Path) -> int:
    """Places of storage and of the entity itself that name the column; a table has its name, too."""
    package = root / "src" / "statewright"
    files = [
        package / "entity.py",
        *(path for path in (package / "storage").rglob("*") if path.suffix in {".py", ".sql"}),
    ]
    return sum(
        len(re.findall(rf"(?<!FROM )(?<!INTO )\b(?:\w+_)?{COLUMN}\b", path.read_text()))
        for path in files
        if "migrations" not in path.parts
    )


def measure(root: Path) -> dict[str, str]:
    """Figures that need no ratchet, since tests hold them, by what they count."""
    modules = list_modules(root)
    functions = sum(1 for _, tree in read_all_modules(root) for _ in list_functions(tree))
    participles, twice = list_participles(root), list_names_used_twice(root)
    package = root / "src" / "statewright"
    classes = {name for name in twice if name[:1].isupper()}
    share = 100 * len(participles) / functions
    return {
        "functions named by a result": f"{len(participles)} of {functions} ({share:.1f} %)",
        "deepest folder": str(max(len(path.relative_to(package).parts) - 1 for path in modules)),
        "names used twice": f"{len(twice)} ({len(classes)} classes)",
        "places a column touches": str(count_places_of_column(root)),
    }


def read_figures(path: Path = COMMITTED) -> Committed:
    """The figures that are committed, by group and name."""
    return tomllib.loads(path.read_text())


def format_figures(figures: Mapping[str, Mapping[str, Number]]) -> str:
    """As the committed file has them."""
    groups = (
        "\n".join([f"[{group}]", *(f"{name} = {value}" for name, value in named.items())])
        for group, named in figures.items()
    )
    return HEADER + "\n" + "\n\n".join(groups) + "\n"


def judge(
    name: str, now: Number, committed: Number, *, higher_is_better: bool = False, tolerance: float = 0.0
) -> str | None:
    """What is wrong with a figure: that it is worse than the committed one, or better and not entered. Within the share
    that is tolerated it is neither.
    """
    gain = (now - committed) if higher_is_better else (committed - now)
    if abs(gain) <= tolerance * abs(committed):
        return None
    if gain < 0:
        return f"{name} has become worse: {now}, and was {committed}"
    return f"{name} has become better: {now}, and was {committed}; enter it by `make figures`"


def judge_house(now: Committed, committed: Committed) -> list[str]:
    """What is wrong with the figures that are read from the code. Ones that are not in the file are worse than any."""
    complaints: list[str] = []
    for figure in FIGURES:
        name = f"{figure.group}.{figure.name}"
        known = committed.get(figure.group, {}).get(figure.name)
        if known is None:
            complaints.append(f"{name} is not in {COMMITTED.name}")
            continue
        value = now[figure.group][figure.name]
        complaint = judge(name, value, known, higher_is_better=figure.higher_is_better)
        is_better = complaint is not None and judge(
            name, value, known, higher_is_better=figure.higher_is_better, tolerance=ENTERED_FROM
        )
        if complaint is not None and ("worse" in complaint or is_better):
            complaints.append(complaint)
    return complaints


def judge_walks(now: Committed, committed: Committed) -> list[str]:
    """What is wrong with the walks: no file more, and calls within a tolerance."""
    complaints: list[str] = []
    for walk, named in now.items():
        for name, value in named.items():
            known = committed.get(walk, {}).get(name)
            if known is None:
                complaints.append(f"{walk}.{name} is not in {COMMITTED.name}")
                continue
            if name == "files" and 0 <= known - value <= FILES_TOLERANCE:
                continue
            tolerance = CALLS_TOLERANCE if name == "calls" else 0.0
            complaints += filter(None, [judge(f"{walk}.{name}", value, known, tolerance=tolerance)])
    return complaints


def enter_better(now: Committed, committed: Committed) -> dict[str, dict[str, Number]]:
    """The committed figures with those of now that are better, or new. What was not measured stays."""
    rising = {(figure.group, figure.name) for figure in FIGURES if figure.higher_is_better}
    entered = {group: dict(named) for group, named in committed.items()}
    for group, named in now.items():
        for name, value in named.items():
            known = entered.setdefault(group, {}).get(name, value)
            entered[group][name] = max(known, value) if (group, name) in rising else min(known, value)
    return entered


def measure_walks() -> dict[str, dict[str, Number]]:
    """Files and calls of the requests, by walk: the test that holds them leaves them in a file."""
    MEASURED_WALKS.unlink(missing_ok=True)
    subprocess.run(
        [sys.executable, "-m", "pytest", "tests/integration/walks", "-q", "-n", "0", "--show-capture=no"],
        cwd=HERE,
        check=False,
    )
    measured: dict[str, dict[str, Number]] = json.loads(MEASURED_WALKS.read_text())
    return measured


def print_house(root: Path, now: Committed, committed: Committed) -> None:
    """A line for each figure, with the committed one beside it."""
    says = {(figure.group, figure.name): figure.says for figure in FIGURES}
    for group, named in now.items():
        for name, value in named.items():
            known = committed.get(group, {}).get(name, "-")
            sys.stdout.write(f"{group + '.' + name:<34}{value:>10}{known:>10}  {says.get((group, name), '')}\n")
    for figure, text in measure(root).items():
        sys.stdout.write(f"{figure:<34}{text:>20}\n")


def is_reached(group: str, name: str, value: Number, goal: Number) -> bool:
    """Whether a figure is as good as its goal."""
    rises = any(figure.higher_is_better for figure in FIGURES if (figure.group, figure.name) == (group, name))
    return value >= goal if rises else value <= goal


def print_goals(now: Committed, goals: Mapping[str, Mapping[str, Mapping[str, Number | str]]]) -> None:
    """A line for each goal: the figure before the folds, now, and what it was to be, with why it is missed."""
    for group, named in goals.items():
        for name, row in named.items():
            cells = "".join(f"{value:>10}" for value in (row["before"], now[group][name], row["goal"]))
            sys.stdout.write(f"{group + '.' + name:<34}{cells}  {row.get('missed', '')}\n")


def main() -> None:
    """Read the options, measure and print."""
    parser = argparse.ArgumentParser(prog="python -m scripts.measure_code", description=__doc__)
    parser.add_argument("roots", nargs="*", type=Path, default=[HERE], metavar="ROOT")
    parser.add_argument("--walks", action="store_true")
    parser.add_argument("--enter", action="store_true")
    parser.add_argument("--goals", action="store_true")
    options = parser.parse_args()
    committed = read_figures()
    for root in options.roots:
        now = measure_house(root)
        if options.walks and root == HERE:
            now |= measure_walks()
        sys.stdout.write(f"{root.resolve()}: now, and as committed\n")
        print_house(root, now, committed)
        if options.goals:
            sys.stdout.write("before, now and goal\n")
            print_goals({**committed, **now}, tomllib.loads(GOALS.read_text()))
        if options.enter and root == HERE:
            COMMITTED.write_text(format_figures(enter_better(now, committed)))


if __name__ == "__main__":
    main()
