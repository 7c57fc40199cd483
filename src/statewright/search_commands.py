"""Commands about searches: ``statewright index …`` and ``statewright explain-search``.

They speak to a running service over HTTP, like any client: an embedded database is nobody else's to open, and the
service knows what its callers may do.
"""

import http.client
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote, urlencode, urlsplit

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

TIMEOUT_S = 60.0
POLL_S = 0.2

Url = Annotated[str, typer.Option("--url", help="REST API of the service.", metavar="URL")]
Token = Annotated[str | None, typer.Option(help="Bearer token; not needed in mock mode.", show_default=False)]
TokenFile = Annotated[Path | None, typer.Option(help="File that holds the token.", show_default=False)]
Model = Annotated[str, typer.Argument(help="Name and version of the model.", metavar="MODEL/VERSION")]
DEFAULT_URL = "http://127.0.0.1:8080/api"

Json = Any  # what a service answers is checked where it is used

index = typer.Typer(help="Indexes that make searches fast.", no_args_is_help=True)


class ServiceRefused(ValueError):
    """The service answered with an error; the message is its own."""


class Service:
    """The REST API as one caller sees it."""

    def __init__(self, url: str, token: str | None, token_file: Path | None) -> None:
        self._parts = urlsplit(url)
        if self._parts.scheme not in ("http", "https") or not self._parts.hostname:
            raise typer.BadParameter(f'"{url}" is no http or https URL', param_hint="--url")
        self._token = token or (token_file.read_text("utf-8").strip() if token_file else "none")

    def __call__(self, method: str, path: str, body: object = None) -> Json:
        """The JSON of the answer. Raises :class:`ServiceRefused`, ``OSError``."""
        kind = http.client.HTTPSConnection if self._parts.scheme == "https" else http.client.HTTPConnection
        connection = kind(self._parts.hostname or "", self._parts.port, timeout=TIMEOUT_S)
        try:
            content = None if body is None else json.dumps(body)
            headers = {"Authorization": f"Bearer {self._token}"}
            connection.request(method, f"{self._parts.path.rstrip('/')}{path}", content, headers)
            answer = connection.getresponse()
            return _checked(answer.status, answer.read().decode(errors="replace"))
        finally:
            connection.close()


@index.command()
def create(
    model: Model,
    path: Annotated[str, typer.Argument(help="The field, like `$.buyer.city`; `$` for the whole document.")],
    type_: Annotated[
        str | None, typer.Option("--type", help="TEXT, NUMBER, BOOLEAN or DOCUMENT; from the model when it is clear.")
    ] = None,
    state: Annotated[str | None, typer.Option(help="Only entities in this state.")] = None,
    wait: Annotated[bool, typer.Option(help="Stay until the index is built.")] = True,
    url: Url = DEFAULT_URL,
    token: Token = None,
    token_file: TokenFile = None,
) -> None:
    """Have an index built, without stopping anybody."""
    given = {"path": path, "type": type_, "state": state}
    with one_line_failures():
        service = Service(url, token, token_file)
        wanted = {name: value for name, value in given.items() if value is not None}
        declared = service("POST", _indexes_of(model), wanted)
        if wait:
            declared = _built(service, model, declared["id"])
    typer.echo(f"{declared['id']} {declared['status']}")


@index.command(name="list")
def list_(model: Model, url: Url = DEFAULT_URL, token: Token = None, token_file: TokenFile = None) -> None:
    """List the indexes of a model."""
    table = Table("id", "path", "type", "state", "status", box=None)
    with one_line_failures():
        found = Service(url, token, token_file)("GET", _indexes_of(model))
    for one in found:
        progress = one.get("progress")
        status = f"{one['status']} {progress['phase']} {progress['percent']} %" if progress else one["status"]
        table.add_row(one["id"], one["path"], one["type"], one.get("state", ""), one.get("failure") or status)
    Console(soft_wrap=True).print(table)


@index.command()
def drop(
    model: Model,
    id_: Annotated[str, typer.Argument(help="As `list` shows it.", metavar="ID")],
    url: Url = DEFAULT_URL,
    token: Token = None,
    token_file: TokenFile = None,
) -> None:
    """Have an index dropped."""
    with one_line_failures():
        Service(url, token, token_file)("DELETE", f"{_indexes_of(model)}/{quote(id_, safe='')}")


def explain_search(
    model: Model,
    condition: Annotated[
        typer.FileText, typer.Argument(help="File with the condition as JSON; `-` for standard input.")
    ],
    point_in_time: Annotated[str | None, typer.Option(help="The instant to look at.", metavar="RFC3339")] = None,
    analyze: Annotated[bool, typer.Option("--analyze", help="Run the statement and show what it took.")] = False,
    url: Url = DEFAULT_URL,
    token: Token = None,
    token_file: TokenFile = None,
) -> None:
    """Show how a direct search is carried out: SQL, what is judged row by row, PostgreSQL's plan."""
    query = {"explain": "analyze" if analyze else "plan"} | ({"pointInTime": point_in_time} if point_in_time else {})
    path = f"/search/direct/{path_of(model)}?{urlencode(query)}"
    with one_line_failures():
        answer = Service(url, token, token_file)("POST", path, json.loads(condition.read()))
    typer.echo(answer["sql"])
    for number, argument in enumerate(answer["arguments"], start=1):
        typer.echo(f"  ${number} = {argument}")
    typer.echo(f"judged row by row: {', '.join(answer['judged']) or 'nothing'}")
    for line in answer["plan"]:
        typer.echo(line)


@contextmanager
def one_line_failures() -> Iterator[None]:
    """What an operator can do something about ends the program with one line and code 1."""
    try:
        yield
    except (OSError, ValueError, http.client.HTTPException) as failure:
        Console(stderr=True, soft_wrap=True).print("error:", style="bold red", end=" ")
        typer.echo(str(failure) or type(failure).__name__, err=True)
        raise typer.Exit(1) from None


def _built(service: Service, model: str, wanted: str) -> Json:
    """The index once it is ready. Raises :class:`ServiceRefused` when it cannot be built."""
    columns = TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("waiting", total=100)
        while True:
            found = next((one for one in service("GET", _indexes_of(model)) if one["id"] == wanted), None)
            if found is None or found["status"] == "FAILED":
                raise ServiceRefused(found.get("failure", "it failed") if found else "the index was dropped meanwhile")
            if found["status"] == "READY":
                return found
            now = found.get("progress", {})
            progress.update(task, description=now.get("phase", "waiting"), completed=now.get("percent", 0))
            time.sleep(POLL_S)


def _indexes_of(model: str) -> str:
    return f"/model/{path_of(model)}/index"


def path_of(model: str) -> str:
    name, slash, version = model.rpartition("/")
    if not slash or not name:
        raise typer.BadParameter(f'"{model}" is not MODEL/VERSION', param_hint="MODEL/VERSION")
    return f"{quote(name, safe='')}/{quote(version, safe='')}"


def _checked(status: int, text: str) -> Json:
    if status == 200:
        return json.loads(text)
    try:
        told = json.loads(text)
        detail = told["reason"] if "reason" in told else told["detail"]  # the step engine has a dialect of its own
    except (ValueError, KeyError, TypeError):
        detail = text.strip() or f"status {status}"
    raise ServiceRefused(detail)
