"""``statewright init``: a first file of variables for this user (docs/reference/cli.md#init)."""

import os
from typing import Annotated, Final

import typer

from statewright.cli.client import report_failures
from statewright.cli.environment import SYSTEM_FILE, find_user_file

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
