"""What is counted in the modules of a checkout, as a table: each figure, how it is counted, and which way is better.

All of it is read from the syntax trees, so that nothing has to run. The walks of requests are counted elsewhere
(tests/integration/walks).
"""

import ast
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, TypeAlias

from msgspec import Struct

from scripts.find_equal_shapes import count_equal_shapes
from scripts.read_tree import Module, count_code_lines, list_modules, list_modules_beside, list_words

Modules: TypeAlias = Sequence[Module]
Number: TypeAlias = int | float

SMALL_FILE_LINES: Final = 40
FREQUENT_FILE_NAME: Final = 10
LANGUAGES: Final = ("steps", "flows", "playbooks")
"""Packages of the process languages, in which alone a language may be named."""
LANGUAGE_WORDS: Final = frozenset({"flow", "flows", "playbook", "playbooks", "steps", "noetl"})
"""``step`` is a word of the host for any node of a definition."""
CONCERNS: Final = frozenset({"keyed", "suspension", "suspensions", "incident", "incidents"})
TAKING_TURNS: Final = re.compile(r"\b(?:run_by_size|free_in_parts|take_apart)\b")
MEMBER: Final = re.compile(r"\b(?:first_at|firstAt)\b")
"""A member of incidents, which nothing else has."""
OPERATION: Final = re.compile(r"\b(?:resolve_incident|resolveIncident|OpsIncidentResolution)\b")
"""An operation on incidents."""
SENT_BY_BROWSERS: Final = frozenset({"query", "form", "cookies", "headers", "params"})
MAY_BE_LOOSE: Final = frozenset({"__init__.py", "entity.py", "ids.py", "instants.py", "failures.py"})

_PATH_FUNCTIONS: Final = frozenset(
    {"split", "rsplit", "partition", "startswith", "endswith", "removeprefix", "rstrip", "compile", "sub", "match"}
)
_LANGUAGE_MODULE: Final = re.compile(r"(?:^|_)(?:step|flow|playbook)s?(?:_|\.py$|$)")


def count_calls(modules: Iterable[Module], names: frozenset[str]) -> int:
    """Calls of functions and methods with these names."""
    return sum(
        1 for module in modules for node in module.nodes if isinstance(node, ast.Call) and _name(node.func) in names
    )


def _name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def count_definitions(modules: Iterable[Module], prefix: str) -> int:
    """Functions whose name begins so."""
    return sum(
        1
        for module in modules
        for node in module.nodes
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith(prefix)
    )


def count_words(modules: Iterable[Module], words: frozenset[str]) -> int:
    """Occurrences in names and texts of code; comments and docstrings apart."""
    return sum(1 for module in modules for word in list_words(module.nodes) if word in words)


def count_files_naming(root: Path, pattern: re.Pattern[str]) -> int:
    """Files of the package that name something: code, SQL and templates, migrations apart."""
    package = root / "src" / "statewright"
    files = (path for path in package.rglob("*") if path.suffix in {".py", ".sql", ".html"})
    return sum(1 for path in files if "migrations" not in path.parts and pattern.search(path.read_text()))


def count_adapter_lines(modules: Iterable[Module]) -> int:
    """Code lines of modules that are named after a language, or lie in such a folder, outside the languages' own."""
    return sum(
        module.code_lines
        for module in modules
        if module.parts[0] not in LANGUAGES and any(_LANGUAGE_MODULE.search(part) for part in module.parts)
    )


def select(modules: Iterable[Module], *folders: str) -> list[Module]:
    """The modules below folders, or at these paths."""
    return [module for module in modules if any(f"{module.path}/".startswith(f"{folder}/") for folder in folders)]


def select_crossed(modules: Iterable[Module]) -> list[Module]:
    """Modules of engine and services that are not about keys, suspensions or incidents themselves."""
    return [
        module
        for module in select(modules, "engine", "services")
        if not module.path.startswith("services/idempotency/")
        and not {"incident", "incidents", "suspension", "suspensions"} & set(re.split(r"[_.]", module.parts[-1]))
    ]


def select_crossed_services(modules: Iterable[Module]) -> list[Module]:
    """The services among them, without the host of processes."""
    crossed = select(select_crossed(modules), "services")
    return [module for module in crossed if not module.path.startswith("services/processes/")]


def count_fields(modules: Iterable[Module], path: str, name: str) -> int:
    """Declared fields of a class; 0 where there is none any more."""
    return sum(
        isinstance(statement, ast.AnnAssign)
        for module in select(modules, path)
        for node in module.nodes
        if isinstance(node, ast.ClassDef) and node.name == name
        for statement in node.body
    )


def count_extension_reads(modules: Iterable[Module]) -> int:
    """Calls of ``….extensions.get``."""
    return sum(
        1
        for module in modules
        for node in module.nodes
        if isinstance(node, ast.Attribute) and node.attr == "get" and _name(node.value) == "extensions"
    )


def count_mutated_failures(modules: Iterable[Module]) -> int:
    """Assignments to attributes of a failure."""
    return sum(
        1
        for module in modules
        for node in module.nodes
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and _name(node.value) in {"failure", "error"}
    )


def count_request_types(modules: Iterable[Module]) -> int:
    """Classes of the listeners that stand for an HTTP request: their name ends so, and they are no body of one."""
    return sum(
        1
        for module in select(modules, "api/http", "console")
        for node in module.tree.body
        if isinstance(node, ast.ClassDef) and node.name.endswith("Request") and not node.name.startswith("_")
    )


def count_reads_by_name(modules: Iterable[Module]) -> int:
    """Reads of a member of JSON: ``get_…(document, "name")``, ``….get("name")`` and ``…["name"]``. What a browser sends
    is none.
    """
    return sum(1 for module in modules for node in module.nodes if _reads_by_name(node))


def _reads_by_name(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Name(id=name), args=[_, ast.Constant(value=str()), *_]):
            return name.startswith("get_")
        case ast.Call(func=ast.Attribute(value=source, attr="get"), args=[ast.Constant(value=str()), *_]):
            return _name(source) not in SENT_BY_BROWSERS
        case ast.Subscript(value=source, slice=ast.Constant(value=str()), ctx=ast.Load()):
            return _name(source) not in SENT_BY_BROWSERS
    return False


def list_loose_modules(modules: Iterable[Module]) -> list[str]:
    """Modules at the root of the package that have no room yet."""
    return [module.path for module in modules if len(module.parts) == 1 and module.path not in MAY_BE_LOOSE]


def _list_classes(module: Module) -> list[str]:
    return [one.name for one in module.tree.body if isinstance(one, ast.ClassDef) and not one.name.startswith("_")]


def count_class_doubles(modules: Modules) -> int:
    """Public class names, package by package, that several modules define among the package and what it imports.

    A package is a folder. Each name counts once, whatever the number of packages that meet it twice.
    """
    classes = {module.name: _list_classes(module) for module in modules}
    doubles: set[str] = set()
    packages: dict[str, set[str]] = {}
    for module in modules:
        met = packages.setdefault("/".join(module.parts[:-1]), set())
        met.add(module.name)
        met.update(list_imports(module, classes))
    for met in packages.values():
        times = Counter(name for module in met for name in classes[module])
        doubles.update(name for name, count in times.items() if count > 1)
    return len(doubles)


def count_frequent_file_names(modules: Iterable[Module]) -> int:
    """Names, ``__init__.py`` apart, that so many files have that they find none of them."""
    times = Counter(module.parts[-1] for module in modules if module.parts[-1] != "__init__.py")
    return sum(count >= FREQUENT_FILE_NAME for count in times.values())


def list_imports(module: Module, known: Iterable[str] | dict[str, list[str]]) -> Iterator[str]:
    """Modules of the package that a module imports anywhere but for types alone, without the packages above them."""
    for name in _list_imported(module.tree):
        if name in known:
            yield name


def _list_imported(node: ast.AST) -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                continue
            case ast.Import(names=names):
                yield from (one.name for one in names)
            case ast.ImportFrom(module=str(name), names=names):
                yield name
                yield from (f"{name}.{one.name}" for one in names)
            case _:
                yield from _list_imported(child)


def list_closure(modules: Modules, start: str) -> set[str]:
    """Modules that come with one: those it imports, the packages they lie in, and theirs in turn."""
    by_name = {module.name: module for module in modules}
    open_, reached = [start], set[str]()
    while open_:
        name = open_.pop()
        if name in by_name and name not in reached:
            reached.add(name)
            open_ += _list_imported(by_name[name].tree)
            if "." in name:
                open_.append(name.rpartition(".")[0])
    return reached


def count_test_lines(root: Path, *folders: str) -> int:
    """Code lines of the tests in folders."""
    files = (path for folder in folders for path in root.glob(f"{folder}/**/*.py"))
    return sum(count_code_lines(path.read_text()) for path in files)


class Figure(Struct, frozen=True):
    """A figure of a checkout, in the words of the table that is printed."""

    group: str
    name: str
    says: str
    count: Callable[[Path, Modules], Number]
    higher_is_better: bool = False


def _share_of_small(modules: Modules) -> float:
    return round(100 * sum(one.lines < SMALL_FILE_LINES for one in modules) / max(len(modules), 1), 1)


def _measure_tests_beside(root: Path) -> float:
    return round(count_test_lines(root, "packages/*/tests") / max(_sum_code(list_modules_beside(root)), 1), 3)


def _sum_code(modules: Iterable[Module]) -> int:
    return sum(one.code_lines for one in modules)


FIGURES: Final = (
    Figure("size", "code_lines", "lines of code, no blank ones, comments, docstrings", lambda _, all_: _sum_code(all_)),
    Figure(
        "size", "longest_file", "lines of the longest file", lambda _, all_: max((one.lines for one in all_), default=0)
    ),
    Figure(
        "size",
        "equal_shapes",
        "pieces of code equal to one before, up to names",
        lambda _, all_: count_equal_shapes(one.tree for one in all_),
    ),
    Figure(
        "size",
        "tests_per_code",
        "lines of code in tests for each in src",
        lambda root, all_: round(count_test_lines(root, "tests") / max(_sum_code(all_), 1), 3),
        higher_is_better=True,
    ),
    Figure(
        "records",
        "define_object",
        "schemas written by define_object",
        lambda _, all_: count_calls(all_, frozenset({"define_object"})),
    ),
    Figure(
        "records",
        "describe_functions",
        "functions named _describe_…",
        lambda _, all_: count_definitions(all_, "_describe_"),
    ),
    Figure(
        "records",
        "places_of_a_member",
        "files that name firstAt of incidents",
        lambda root, _: count_files_naming(root, MEMBER),
    ),
    Figure(
        "records",
        "places_of_an_operation",
        "files that name resolving an incident",
        lambda root, _: count_files_naming(root, OPERATION),
    ),
    Figure(
        "languages", "adapter_lines", "lines of code of language adapters", lambda _, all_: count_adapter_lines(all_)
    ),
    Figure(
        "languages",
        "names_in_host",
        "names of languages in services/processes",
        lambda _, all_: count_words(select(all_, "services/processes"), LANGUAGE_WORDS),
    ),
    Figure(
        "concerns",
        "words_in_engine",
        "keyed, suspension, incident in engine",
        lambda _, all_: count_words(select(select_crossed(all_), "engine"), CONCERNS),
    ),
    Figure(
        "concerns",
        "words_in_services",
        "the same in the rest of services",
        lambda _, all_: count_words(select_crossed_services(all_), CONCERNS),
    ),
    Figure(
        "concerns",
        "words_in_host",
        "the same in services/processes",
        lambda _, all_: count_words(select(select_crossed(all_), "services/processes"), CONCERNS),
    ),
    Figure("concerns", "extension_reads", "uses of extensions.get", lambda _, all_: count_extension_reads(all_)),
    Figure(
        "concerns",
        "runtime_fields",
        "fields of Runtime",
        lambda _, all_: count_fields(all_, "services/runtime.py", "Runtime"),
    ),
    Figure("concerns", "mutated_failures", "assignments to a failure", lambda _, all_: count_mutated_failures(all_)),
    Figure(
        "libraries",
        "path_matching",
        "calls in api/http/router.py that take paths apart",
        lambda _, all_: count_calls(select(all_, "api/http/router.py"), _PATH_FUNCTIONS),
    ),
    Figure("libraries", "request_types", "types of an HTTP request", lambda _, all_: count_request_types(all_)),
    Figure(
        "console",
        "reads_by_name",
        "members of JSON that console reads by name",
        lambda _, all_: count_reads_by_name(select(all_, "console")),
    ),
    Figure("console", "console_lines", "lines of code of console", lambda _, all_: _sum_code(select(all_, "console"))),
    Figure(
        "kernel",
        "names_in_net",
        "names of languages in net",
        lambda _, all_: count_words(select(all_, "net"), LANGUAGE_WORDS),
    ),
    Figure("files", "files", "modules", lambda _, all_: len(all_)),
    Figure(
        "files",
        "mean_code_lines",
        "lines of code of a file, in the mean",
        lambda _, all_: round(_sum_code(all_) / max(len(all_), 1), 1),
        higher_is_better=True,
    ),
    Figure("files", "small_files_percent", "files below 40 lines, percent", lambda _, all_: _share_of_small(all_)),
    Figure(
        "files", "loose_modules", "modules at the root that have no room", lambda _, all_: len(list_loose_modules(all_))
    ),
    Figure(
        "files",
        "class_doubles",
        "class names met twice in a package and its imports",
        lambda _, all_: count_class_doubles(all_),
    ),
    Figure(
        "files",
        "frequent_file_names",
        "names that ten files or more have",
        lambda _, all_: count_frequent_file_names(all_),
    ),
    Figure(
        "loop",
        "files_taking_turns",
        "files that name run_by_size, free_in_parts, take_apart",
        lambda root, _: count_files_naming(root, TAKING_TURNS),
    ),
    Figure(
        "loop",
        "sdk_closure",
        "modules that come with statewright.sdk",
        lambda _, all_: len(list_closure(all_, "statewright.sdk")),
    ),
    Figure(
        "packages",
        "code_lines",
        "lines of code of distributions beside the product",
        lambda root, _: _sum_code(list_modules_beside(root)),
    ),
    Figure("packages", "files", "their modules", lambda root, _: len(list_modules_beside(root))),
    Figure(
        "packages",
        "equal_shapes",
        "pieces of their code equal to one before",
        lambda root, _: count_equal_shapes(one.tree for one in list_modules_beside(root)),
    ),
    Figure(
        "packages",
        "tests_per_code",
        "lines of code in their tests for each of theirs",
        lambda root, _: _measure_tests_beside(root),
        higher_is_better=True,
    ),
)


def measure_house(root: Path) -> dict[str, dict[str, Number]]:
    """All figures of a checkout, by group and name."""
    modules = list_modules(root)
    found: dict[str, dict[str, Number]] = {}
    for figure in FIGURES:
        found.setdefault(figure.group, {})[figure.name] = figure.count(root, modules)
    return found
