"""What ``deploy/Dockerfile`` says, and what it comes to where there is no Docker."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tests.installation import PROJECT, ROOT, link_distributions

DOCKERFILE = ROOT / "deploy" / "Dockerfile"
BUILD_WITHIN_S = 300.0


def read_stages() -> list[list[list[str]]]:
    """The instructions of each stage, word by word; RUN has one. Lines that go on are one line."""
    text = re.sub(r"\\\n\s*", "", DOCKERFILE.read_text())
    stages: list[list[list[str]]] = []
    for line in text.splitlines():
        if not line or line.startswith("#"):
            continue
        name, _, rest = line.partition(" ")
        if name == "FROM":
            stages.append([])
        stages[-1].append([name, *_split(name, rest)])
    return stages


def _split(instruction: str, rest: str) -> list[str]:
    if instruction == "RUN":
        return [rest]
    words: list[str] = json.loads(rest) if rest.startswith("[") else shlex.split(rest)
    return words


def of_image(instruction: str) -> list[list[str]]:
    """What follows the instruction in the last stage."""
    return [line[1:] for line in read_stages()[-1] if line[0] == instruction]


def of_image_environment() -> dict[str, str]:
    """The settings that the image brings."""
    pairs = [pair.partition("=") for line in of_image("ENV") for pair in line]
    return {name: value for name, _, value in pairs if name.startswith("STATEWRIGHT_")}


def list_context() -> Iterator[Path]:
    """The files of the repository that ``Dockerfile.dockerignore`` lets through, relative to it: of the patterns that
    match a path or a folder above it the last decides.
    """
    lines = DOCKERFILE.with_name("Dockerfile.dockerignore").read_text().splitlines()
    rules = [(line.startswith("!"), line.lstrip("!")) for line in lines if line and not line.startswith("#")]
    kept = [pattern for keeps, pattern in rules if keeps]
    for folder, folders, names in os.walk(ROOT):
        place = Path(folder).relative_to(ROOT)
        # What an exception could be in is looked into, and nothing else: .venv is large.
        folders[:] = [name for name in folders if _is_let_through(place / name, rules) or _leads_to(place / name, kept)]
        yield from (place / name for name in names if _is_let_through(place / name, rules))


def _leads_to(folder: Path, patterns: Sequence[str]) -> bool:
    return any(Path(pattern).is_relative_to(folder) for pattern in patterns)


def _is_let_through(path: Path, rules: Sequence[tuple[bool, str]]) -> bool:
    verdict = True
    for keeps, pattern in rules:
        if any(_matches(str(part), pattern) for part in (path, *path.parents)):
            verdict = keeps
    return verdict


def _matches(path: str, pattern: str) -> bool:
    """``**/`` stands for any folders, ``*`` for any characters of one name."""
    parts = re.split(r"(\*\*/|\*|\?)", pattern)
    translated = {"**/": "(?:.*/)?", "*": "[^/]*", "?": "[^/]"}
    return re.fullmatch("".join(translated.get(part, re.escape(part)) for part in parts), path) is not None


def build_image(root: Path) -> Path:
    """Carry out COPY, WORKDIR and RUN of the stages in ``root`` instead of ``/``; the interpreter of the image.

    Packages that the program needs are not fetched but linked to those which are installed here, as far as its
    metadata name them; FROM and accounts are left out.
    """
    context = root / "context"
    for file in list_context():
        (context / file.parent).mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / file, context / file)
    build, image = read_stages()
    _carry_out(build, root, context)
    [[made, copied]] = [line[2:] for line in image if line[:2] == ["COPY", "--from=build"]]
    assert made == copied, "an environment works where it was made"
    [site] = (root / made.lstrip("/")).glob("lib/python*/site-packages")
    extras = re.findall(r"'\.\[([a-z,]+)\]'", " ".join(line[1] for line in build if line[0] == "RUN"))
    optional = [
        need for extra in extras for name in extra.split(",") for need in PROJECT["optional-dependencies"][name]
    ]
    link_distributions(site, [*PROJECT["dependencies"], *optional])
    for left_behind in ("context", "source"):
        shutil.rmtree(root / left_behind)
    return root / made.lstrip("/") / "bin" / "python"


def _carry_out(stage: Sequence[Sequence[str]], root: Path, context: Path) -> None:
    workdir = root
    for instruction, *words in stage:
        if instruction == "WORKDIR":
            workdir = root / words[0].lstrip("/")
            workdir.mkdir(parents=True)
        elif instruction == "COPY":
            _copy([context / name for name in words[:-1]], workdir / words[-1])
        elif instruction == "RUN":
            placed = re.sub(r"(?<![\w.'])/(?=\w+/)", f"{root}/", words[0])
            _run(placed.replace("pip install", "pip install --no-deps"), workdir, root)


def _copy(sources: Sequence[Path], target: Path) -> None:
    """A folder's content into ``target``, files below it when there are several or it is a folder."""
    for source in sources:
        if source.is_dir():
            shutil.copytree(source, target, dirs_exist_ok=True)
        else:
            shutil.copyfile(source, target / source.name if target.is_dir() else target)


def _run(command: str, workdir: Path, home: Path) -> None:
    fresh: Mapping[str, str] = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    told = subprocess.run(
        ["sh", "-ec", command],
        cwd=workdir,
        env={**fresh, "HOME": str(home), "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=BUILD_WITHIN_S,
        check=False,
    )
    assert told.returncode == 0, told.stdout + told.stderr
