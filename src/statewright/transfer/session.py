"""One client's conversation with the REST API.

A connection that is kept, a token that is renewed, and patience with a service that is away for a moment.
"""

import asyncio
import http.client
import json
import time
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

from statewright.sdk.tokens import TokenSource

TIMEOUT_S = 60.0
ATTEMPTS = 6
FIRST_PAUSE_S = 0.5
"""Doubled after every attempt: a service that restarts is waited for, about fifteen seconds."""

Json = Any  # what a service answers is checked where it is used


class Refused(ValueError):
    """The service answered with an error; the message is its own."""

    def __init__(self, status: int, code: str, detail: str) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code


class Session:
    """The REST API at ``url``, which ends with the context path."""

    def __init__(self, url: str, tokens: TokenSource, *, first_pause_s: float = FIRST_PAUSE_S) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f'"{url}" is no http or https URL')
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._connection = kind(parts.hostname, parts.port, timeout=TIMEOUT_S)
        self._base = parts.path.rstrip("/")
        self._tokens = tokens
        self._first_pause_s = first_pause_s
        self.said_at: datetime | None = None
        """The time of day at the service, to the second, when it last answered."""

    def close(self) -> None:
        """End the conversation."""
        self._connection.close()

    def __call__(self, method: str, path: str, body: bytes | None = None) -> bytes:
        """The body of the answer; a service that is away or busy is asked again, also after it may have done its work.

        Raises ``Refused``, ``OSError``, ``http.client.HTTPException``.
        """
        pause = self._first_pause_s
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return self._once(method, path, body)
            except Refused as refused:
                if attempt == ATTEMPTS or not _is_passing(refused):
                    raise
            except (OSError, http.client.HTTPException):
                self._connection.close()
                if attempt == ATTEMPTS:
                    raise
            time.sleep(pause)
            pause *= 2
        raise AssertionError("unreachable")

    def json(self, method: str, path: str, body: Json = None) -> Json:
        """The same for small bodies."""
        return json.loads(self(method, path, None if body is None else json.dumps(body).encode()))

    def _once(self, method: str, path: str, body: bytes | None) -> bytes:
        token = asyncio.run(self._tokens.token())
        headers = {"Authorization": f"Bearer {token}"} if token else {"Authorization": "Bearer none"}
        self._connection.request(method, f"{self._base}{path}", body, headers)
        answer = self._connection.getresponse()
        content = answer.read()
        self.said_at = parsedate_to_datetime(answer.headers["Date"]) if "Date" in answer.headers else datetime.now(UTC)
        if answer.status != 200:
            raise _refused(answer.status, content)
        return content


def _refused(status: int, content: bytes) -> Refused:
    try:
        problem = json.loads(content)
        return Refused(status, problem["properties"]["errorCode"], problem["detail"])
    except (ValueError, KeyError, TypeError):
        return Refused(status, "", content.decode(errors="replace").strip() or f"status {status}")


def _is_passing(refused: Refused) -> bool:
    return refused.status == 503 or refused.code == "CONFLICT"
