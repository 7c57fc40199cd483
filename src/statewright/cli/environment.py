"""Files of variables: ``.env`` and its siblings, beside the process environment
(docs/reference/cli.md#files-of-variables).

``statewright init``: a first file of variables for this user (docs/reference/cli.md#init).
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final

import typer
from dotenv import dotenv_values

from statewright.cli.client import report_failures

SYSTEM_FILE: Final = Path("/etc/statewright/statewright.env")
_PREFIXES: Final = ("STATEWRIGHT_", "CYODA_", "WE_", "DB_MAX_CONNS", "DB_MIN_CONNS")
PROFILES_VARIABLES: Final = ("STATEWRIGHT_PROFILES", "CYODA_PROFILES")


def find_user_file(environment: Mapping[str, str]) -> Path | None:
    """The file of the user, whether it exists or not; None without a home."""
    base = environment.get("XDG_CONFIG_HOME", "")
    if Path(base).is_absolute():
        return Path(base) / "statewright" / "statewright.env"
    home = environment.get("HOME")
    return Path(home) / ".config" / "statewright" / "statewright.env" if home else None


def read_environment(
    environment: Mapping[str, str], *, directory: Path | None = None, system_file: Path = SYSTEM_FILE
) -> dict[str, str]:
    """The environment with what files add to it. Highest first: the environment itself, ``.env.<profile>`` (later
    profiles win) and ``.env`` in ``directory`` (the current one), the file of the user, that of the system.

    Only variables of the service are taken, under whichever names it knows them; one that is set, even to nothing, is
    left alone. Files that are not there are passed over. Raises ``OSError`` for one that cannot be read.
    """
    here = directory or Path.cwd()
    user_file = find_user_file(environment)
    files = [
        *(here / f".env.{profile}" for profile in reversed(list_profiles(environment))),
        here / ".env",
        *([user_file] if user_file is not None else []),
        system_file,
    ]
    found = dict(environment)
    for file in files:
        for name, value in _read_file(file).items():
            found.setdefault(name, value)
    return found


def list_profiles(environment: Mapping[str, str]) -> list[str]:
    """The profiles of the environment that can be parts of a file's name."""
    text = next((value for name in PROFILES_VARIABLES if (value := environment.get(name))), "")
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if _is_path(name):
            sys.stderr.write(f"warning: profile {name!r:.80} is no part of a file name, and is left out\n")
    return [name for name in names if name and not _is_path(name)]


def _is_path(name: str) -> bool:
    return ".." in name or any(mark in name for mark in "/\\\0")


def _read_file(file: Path) -> dict[str, str]:
    if not os.path.lexists(file):
        return {}
    values = dotenv_values(file, interpolate=False)
    return {name: value for name, value in values.items() if value is not None and name.startswith(_PREFIXES)}


CONTENT: Final = """\
# Settings of Statewright for this user: `statewright help config`, docs/reference/settings.md.
# The process environment, ./.env and ./.env.<profile> win over this file.

# Where the embedded PostgreSQL keeps its data; or name a database of your own.
#STATEWRIGHT_DATA_DIRECTORY={data}
#STATEWRIGHT_POSTGRES_URL=postgres://user:password@localhost:5432/statewright

# Without these the service listens on this machine only, and asks nobody who he is.
#STATEWRIGHT_HOST=0.0.0.0
#STATEWRIGHT_IAM_MODE=jwt
#STATEWRIGHT_JWT_SIGNING_KEY_FILE=/path/to/key.pem

# For clients and calculation nodes.
#STATEWRIGHT_URL=http://127.0.0.1:8080
#STATEWRIGHT_CLIENT_ID=
#STATEWRIGHT_CLIENT_SECRET_FILE=
"""


def init(
    force: Annotated[bool, typer.Option("--force", help="Write the file anew although there is one.")] = False,
) -> None:
    """Write a file of settings for this user, all of them still switched off."""
    with report_failures():
        file = find_user_file(os.environ)
        if file is None:
            raise ValueError("there is no place for the file: neither HOME nor XDG_CONFIG_HOME is set")
        for found in (file, SYSTEM_FILE):
            if found.exists() and not force:
                typer.echo(f"{found} is there already; nothing was changed")
                return
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as text:
            os.fchmod(descriptor, 0o600)
            text.write(CONTENT.format(data="~/.local/share/statewright"))
        typer.echo(f"{file} written")
