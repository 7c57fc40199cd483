"""What commands share that speak to a running service: their options, and the REST API as one client sees it.

They speak HTTP like any client: an embedded database belongs to its service, and the service knows what its callers may
do. Only the standard library is used, so that a command answers at once.
"""

import http.client
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Annotated, Any, NoReturn
from urllib.parse import quote, urlsplit

import typer
from rich.console import Console

Url = Annotated[
    str, typer.Option("--url", envvar="STATEWRIGHT_API_URL", help="REST API of the service.", metavar="URL")
]
Token = Annotated[
    str | None,
    typer.Option(
        envvar="STATEWRIGHT_API_TOKEN",
        help="Bearer token; not needed in mock mode.",
        show_default=False,
        metavar="TOKEN",
    ),
]
TokenFile = Annotated[Path | None, typer.Option(help="File that holds the token.", show_default=False)]
Model = Annotated[str, typer.Argument(help="Name and version of the model.", metavar="MODEL/VERSION")]
DEFAULT_URL = "http://127.0.0.1:8080/api"

TIMEOUT_S = 60.0
MAX_ATTEMPTS = 6
FIRST_PAUSE_S = 0.5
"""Doubled after every attempt: a service that restarts is waited for, about fifteen seconds."""

Json = Any  # what a service answers is checked where it is used


class RequestRefused(ValueError):
    """The service answered with an error; the message is its own."""

    def __init__(self, status: int, code: str, detail: str) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code


class RestClient:
    """The REST API at ``url``, which ends with the context path. ``get_token`` is asked before every request.

    ``repeats``: a request is sent again when the service is unreachable or busy, even if it may have been carried out,
    and the connection stays open between requests.
    """

    def __init__(
        self,
        url: str,
        get_token: Callable[[], str | None],
        *,
        repeats: bool = False,
        first_pause_s: float = FIRST_PAUSE_S,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise typer.BadParameter(f'"{url}" is no http or https URL', param_hint="--url")
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._connection = kind(parts.hostname, parts.port, timeout=TIMEOUT_S)
        self._base = parts.path.rstrip("/")
        self._get_token = get_token
        self._repeats = repeats
        self._first_pause_s = first_pause_s
        self.answered_at: datetime | None = None
        """The time of day at the service, to the second, when it last answered."""

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def request(self, method: str, path: str, body: bytes | None = None) -> bytes:
        """The body of the answer. Raises ``RequestRefused``, ``OSError``, ``http.client.HTTPException``."""
        pause = self._first_pause_s
        for attempts_left in reversed(range(MAX_ATTEMPTS if self._repeats else 1)):
            try:
                return self._send_once(method, path, body)
            except RequestRefused as refused:
                if not attempts_left or not _is_transient(refused):
                    raise
            except (OSError, http.client.HTTPException):
                self._connection.close()
                if not attempts_left:
                    raise
            time.sleep(pause)
            pause *= 2
        raise AssertionError("unreachable")

    def request_json(self, method: str, path: str, body: Json = None) -> Json:
        """The same for small bodies."""
        return json.loads(self.request(method, path, None if body is None else json.dumps(body).encode()))

    def _send_once(self, method: str, path: str, body: bytes | None) -> bytes:
        headers = {"Authorization": f"Bearer {self._get_token() or 'none'}"}
        self._connection.request(method, f"{self._base}{path}", body, headers)
        answer = self._connection.getresponse()
        content = answer.read()
        if not self._repeats:  # the server may close an idle connection at any moment
            self._connection.close()
        self.answered_at = (
            parsedate_to_datetime(answer.headers["Date"]) if "Date" in answer.headers else datetime.now(UTC)
        )
        if answer.status != 200:
            raise _read_refusal(answer.status, content)
        return content


def connect(url: str, token: str | None, token_file: Path | None) -> RestClient:
    """The service as a command sees it that sends a few requests, each of them once."""
    given = read_token(token, token_file)
    return RestClient(url, lambda: given)


def read_token(token: str | None, token_file: Path | None) -> str | None:
    """The token that the options name. Raises ``OSError``."""
    return token or (token_file.read_text("utf-8").strip() if token_file else None)


def build_model_path(model: str) -> str:
    """``MODEL/VERSION`` as part of a path."""
    name, slash, version = model.rpartition("/")
    if not slash or not name:
        raise typer.BadParameter(f'"{model}" is not MODEL/VERSION', param_hint="MODEL/VERSION")
    return f"{quote(name, safe='')}/{quote(version, safe='')}"


@contextmanager
def report_failures() -> Iterator[None]:
    """What an operator can do something about ends the program with one line and code 1."""
    try:
        yield
    except (OSError, ValueError, EOFError, http.client.HTTPException) as failure:
        fail(str(failure) or type(failure).__name__)


def fail(problem: str) -> NoReturn:
    """End the program with one line and code 1."""
    Console(stderr=True, soft_wrap=True).print("error:", style="bold red", end=" ")
    typer.echo(problem, err=True)
    raise typer.Exit(1) from None


def _read_refusal(status: int, content: bytes) -> RequestRefused:
    try:
        problem = json.loads(content)
        if "reason" in problem:  # the step engine has a dialect of its own
            return RequestRefused(status, "", problem["reason"])
        return RequestRefused(status, problem["properties"]["errorCode"], problem["detail"])
    except (ValueError, KeyError, TypeError):
        return RequestRefused(status, "", content.decode(errors="replace").strip() or f"status {status}")


def _is_transient(refused: RequestRefused) -> bool:
    return refused.status == 503 or refused.code == "CONFLICT"
