"""Print the figures that show whether the code stays easy to enter: `python scripts/measure_code.py [ROOT]`.

Generated code (src/statewright/proto) is left out. ROOT is a checkout, this one by default; give two to compare them.

- functions named by a result: share of functions and methods (properties apart) whose first word is a participle
- files, files below 40 lines, deepest folder below src/statewright, lines
- names used twice: public classes and functions that several modules define under the same name
- places a column touches: how often entity.py, code and SQL of storage (migrations apart) name an entity column,
  `workflow_revision`
"""

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

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
SMALL_FILE_LINES = 40
COLUMN = "workflow_revision"


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


def list_participles(root: Path) -> list[str]:
    """``path::Class.function`` of every function named by its result."""
    return [
        f"{path.relative_to(root / 'src' / 'statewright')}::{name}"
        for path in list_modules(root)
        for name, node in list_functions(ast.parse(path.read_text()))
        if is_participle(node.name)
    ]


def list_open_constants(root: Path) -> list[str]:
    """``path::NAME`` of module constants that are not declared ``Final``; type variables, and pairs, cannot be."""
    return [
        f"{path.relative_to(root / 'src' / 'statewright')}::{node.targets[0].id}"
        for path in list_modules(root)
        for node in ast.parse(path.read_text()).body
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
    """Lines of storage and of the entity itself that name the column."""
    package = root / "src" / "statewright"
    files = [
        package / "entity.py",
        *(path for path in (package / "storage").rglob("*") if path.suffix in {".py", ".sql"}),
    ]
    return sum(
        len(re.findall(rf"\b(?:\w+_)?{COLUMN}\b", path.read_text())) for path in files if "migrations" not in path.parts
    )


def measure(root: Path) -> dict[str, str]:
    """All figures, by what they count."""
    modules = list_modules(root)
    lengths = {path: path.read_text().count("\n") for path in modules}
    functions = sum(1 for path in modules for _ in list_functions(ast.parse(path.read_text())))
    participles, twice = list_participles(root), list_names_used_twice(root)
    package = root / "src" / "statewright"
    classes = {name for name in twice if name[:1].isupper()}
    small = sum(1 for lines in lengths.values() if lines < SMALL_FILE_LINES)
    share = 100 * len(participles) / functions
    return {
        "functions named by a result": f"{len(participles)} of {functions} ({share:.1f} %)",
        "files": str(len(modules)),
        f"files below {SMALL_FILE_LINES} lines": f"{small} ({100 * small / len(modules):.0f} %)",
        "deepest folder": str(max(len(path.relative_to(package).parts) - 1 for path in modules)),
        "names used twice": f"{len(twice)} ({len(classes)} classes)",
        "places a column touches": str(count_places_of_column(root)),
        "lines": str(sum(lengths.values())),
        "longest file": str(max(lengths.values())),
    }


def main() -> None:
    """Print the figures of each checkout beside one another."""
    roots = [Path(argument) for argument in sys.argv[1:]] or [HERE]
    columns = [measure(root) for root in roots]
    for figure in columns[0]:
        sys.stdout.write(f"{figure:<30}" + "".join(f"{column[figure]:>24}" for column in columns) + "\n")


if __name__ == "__main__":
    main()
