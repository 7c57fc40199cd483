"""Tasks as requests to others, who may answer or not.

Tasks of the kind ``http``: from rendered fields to a request, and from a response to an outcome
(docs/reference/playbooks.md#http). Who sends it decides where it may go.

Tasks that calculation members do (docs/reference/executions.md#calculation-members).
"""

import base64
import re
from collections.abc import Iterable
from decimal import Decimal
from typing import Final
from urllib.parse import urlencode, urlsplit, urlunsplit

from msgspec import Struct

from statewright.jsonval.codec import MalformedJson, decode, encode
from statewright.jsonval.numbers import format_number
from statewright.jsonval.values import JsonObject, JsonValue, is_number, is_whole
from statewright.playbooks.dispatch import Dispatch, has_secrets
from statewright.playbooks.pipeline import ToolCall
from statewright.playbooks.policies import Outcome, fail, succeed
from statewright.playbooks.tasks import COMPUTE, PAUSING, PLAYBOOK, WAIT, find_child_mistake, find_due

METHODS: Final = ("DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT")
DEFAULT_CONNECT_S: Final = 10.0
DEFAULT_READ_S: Final = 30.0
MAX_TIMEOUT_S: Final = 300.0

_HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,256}")
_BAD_IN_VALUE: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_RETRYABLE: Final = 429
_FIRST_SERVER_ERROR: Final = 500


class HttpCall(Struct, frozen=True, kw_only=True):
    """A request that a task asks for. It may hold secrets; log nothing of it but the method."""

    method: str
    url: str
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    connect_s: float = DEFAULT_CONNECT_S
    read_s: float = DEFAULT_READ_S

    def __repr__(self) -> str:
        return f"HttpCall(method={self.method!r})"


class _Unfit(ValueError):
    """A field that no request can be made of."""


def build_call(fields: JsonObject, keychain: JsonObject) -> HttpCall | Outcome:
    """The request of a task; an outcome of kind ``http_request`` if its fields are no request."""
    try:
        return _build(fields, keychain)
    except _Unfit as unfit:
        return fail("http_request", str(unfit), retryable=False)


def read_response(status: int, headers: Iterable[tuple[str, str]], body: bytes) -> Outcome:
    """The outcome of a response: ok for 2xx, else an error whose ``result`` is the response nonetheless."""
    found = _join_headers(headers)
    http: JsonObject = {"status": status, "headers": {**found}}
    result: JsonObject = {"status_code": status, "headers": {**found}, "data": _read_body(found, body)}
    if 200 <= status < 300:
        return succeed(result, http=http)
    retryable = status == _RETRYABLE or status >= _FIRST_SERVER_ERROR
    message = f"the server has answered {status}"
    return fail("http", message, code=f"HTTP_{status}", status=status, retryable=retryable, result=result, http=http)


def report_failure(detail: str, *, retryable: bool = True, code: str | None = None) -> Outcome:
    """The outcome of a request that got no response. ``detail`` must hold no secret."""
    return fail("transport", detail, retryable=retryable, code=code)


def _build(fields: JsonObject, keychain: JsonObject) -> HttpCall:
    method = fields.get("method", "GET")
    if not isinstance(method, str) or method.upper() not in METHODS:
        raise _Unfit(f"method must be one of {', '.join(METHODS)}")
    headers = _read_headers(fields.get("headers"))
    names = {name.lower() for name, _ in headers}
    body, media_type = _read_payload(fields)
    if media_type is not None and "content-type" not in names:
        headers.append(("Content-Type", media_type))
    if (auth := fields.get("auth")) is not None:
        headers += _authenticate(auth, keychain)
    connect_s, read_s = _read_timeouts(fields.get("timeout"))
    return HttpCall(
        method=method.upper(),
        url=_build_url(fields),
        headers=tuple(headers),
        body=body,
        connect_s=connect_s,
        read_s=read_s,
    )


def _build_url(fields: JsonObject) -> str:
    url = fields.get("url")
    if not isinstance(url, str) or not url:
        raise _Unfit("url must be text")
    params = fields.get("params")
    if params is None:
        return url
    if not isinstance(params, dict):
        raise _Unfit("params must be a mapping")
    pairs = [
        (name, _write(f"params.{name}", one))
        for name, value in params.items()
        for one in (value if isinstance(value, list) else [value])
        if one is not None
    ]
    try:
        parts = urlsplit(url)
    except ValueError:
        raise _Unfit("url is none") from None
    query = "&".join(part for part in (parts.query, urlencode(pairs)) if part)
    return urlunsplit((parts.scheme, parts.netloc, parts.path, query, parts.fragment))


def _read_headers(value: JsonValue) -> list[tuple[str, str]]:
    if value is None:
        return []
    if not isinstance(value, dict):
        raise _Unfit("headers must be a mapping")
    headers = [(name, _write(f"headers.{name[:60]}", member)) for name, member in value.items() if member is not None]
    for name, text in headers:
        if _HEADER_NAME.fullmatch(name) is None:
            raise _Unfit("headers must have names of letters, digits and hyphens")
        if _BAD_IN_VALUE.search(text) is not None:
            raise _Unfit(f"headers.{name} must be one line")
    return headers


def _read_payload(fields: JsonObject) -> tuple[bytes, str | None]:
    """The body and its media type."""
    if fields.get("body") is not None and fields.get("payload") is not None:
        raise _Unfit("body and payload mean the same; only one of them can be there")
    value = fields.get("body") if fields.get("body") is not None else fields.get("payload")
    if value is None:
        return b"", None
    if isinstance(value, str):
        return value.encode(), "text/plain; charset=utf-8"
    return encode(value), "application/json"


def _authenticate(auth: JsonValue, keychain: JsonObject) -> list[tuple[str, str]]:
    """The headers of a credential: text or ``token`` (bearer), ``username`` and ``password``, or ``headers``."""
    credential = keychain.get(auth) if isinstance(auth, str) else None
    if isinstance(credential, str):
        return [("Authorization", f"Bearer {_check_secret(credential)}")]
    if isinstance(credential, dict):
        token, user, password = (credential.get(name) for name in ("token", "username", "password"))
        if isinstance(token, str):
            return [("Authorization", f"Bearer {_check_secret(token)}")]
        if isinstance(user, str) and isinstance(password, str):
            encoded = base64.b64encode(f"{user}:{password}".encode()).decode()
            return [("Authorization", f"Basic {encoded}")]
        if isinstance(credential.get("headers"), dict):
            return _read_headers(credential.get("headers"))
    raise _Unfit("auth must be the name of a credential of the keychain, with a token, or username and password")


def _check_secret(text: str) -> str:
    if _BAD_IN_VALUE.search(text) is not None:
        raise _Unfit("auth names a credential that is not one line")
    return text


def _read_timeouts(value: JsonValue) -> tuple[float, float]:
    if value is None:
        return DEFAULT_CONNECT_S, DEFAULT_READ_S
    if not isinstance(value, dict):
        return DEFAULT_CONNECT_S, _read_seconds("timeout", value, DEFAULT_READ_S)
    return (
        _read_seconds("timeout.connect", value.get("connect"), DEFAULT_CONNECT_S),
        _read_seconds("timeout.read", value.get("read"), DEFAULT_READ_S),
    )


def _read_seconds(name: str, value: JsonValue, default: float) -> float:
    if value is None:
        return default
    if not is_number(value) or not 0 < value <= MAX_TIMEOUT_S:
        raise _Unfit(f"{name} must be a number of seconds above 0, of {MAX_TIMEOUT_S:g} at most")
    return float(value)


def _write(name: str, value: JsonValue) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | Decimal):
        return format_number(value)
    raise _Unfit(f"{name} must be text, a number or a boolean")


def _join_headers(headers: Iterable[tuple[str, str]]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in headers:
        key = name.lower()
        found[key] = f"{found[key]}, {value}" if key in found else value
    return found


def _read_body(headers: dict[str, str], body: bytes) -> JsonValue:
    """JSON as its value, text as text, anything else in Base64; nothing as null."""
    if not body:
        return None
    media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type == "application/json" or media_type.endswith("+json"):
        try:
            return decode(body)
        except MalformedJson:
            pass  # then it is text, whatever the server says
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return base64.b64encode(body).decode()
    return text if "\0" not in text else base64.b64encode(body).decode()


MAX_WAIT_S: Final = 300
"""Of a wait among other tasks."""


def measure_wait(fields: JsonObject, now: int) -> float | Outcome:
    """How many seconds a wait within a pipeline takes from an instant on, in epoch microseconds; the outcome of one
    that cannot be waited for.
    """
    due = find_due(fields, now)
    if isinstance(due, str):
        return fail("wait", due, retryable=False)
    left_s = max(due - now, 0) / 1_000_000
    if left_s > MAX_WAIT_S:
        limit = f"among other tasks a wait has {MAX_WAIT_S} s at most; make it a step of its own"
        return fail("wait", limit, retryable=False)
    return left_s


MIN_PAUSE_US: Final = 1_000_000
"""A shorter wait is not worth giving the run back for."""


def find_pause(call: ToolCall, dispatch: Dispatch, now: int) -> bool | Outcome:
    """Whether a run is given back for a task, at an instant in epoch microseconds; the outcome of one whose fields
    cannot be used.
    """
    if not dispatch.pauses or call.kind not in PAUSING:
        return False
    if call.kind == WAIT:
        due = find_due(call.fields, now)
        return fail("wait", due, retryable=False) if isinstance(due, str) else due - now > MIN_PAUSE_US
    mistake = find_child_mistake(call.fields)
    return True if mistake is None else fail(PLAYBOOK, " ".join(mistake), retryable=False)


def measure_pause_s(dispatch: Dispatch, now: int) -> float:
    """How long a run has rested that goes on, in seconds."""
    return 0.0 if dispatch.resume is None else max(now - dispatch.resume.since, 0) / 1_000_000


DEFAULT_TIMEOUT_MS: Final = 60_000
MAX_TIMEOUT_MS: Final = 600_000
MAX_TAGS: Final = 20


class MemberCall(Struct, frozen=True, kw_only=True):
    """What a member is asked for."""

    name: str
    """Of the processor."""
    tags: tuple[str, ...]
    """All of which the member offers; none: any member."""
    timeout_ms: int
    context: str
    """Text for the processor."""
    data: JsonValue
    run: JsonObject
    """Which task of which run asks, and of one that attaches it what the run can see."""
    has_secrets: bool
    """Whether the fields may hold some."""


def build_member_call(call: ToolCall, dispatch: Dispatch) -> "MemberCall | Outcome":
    """The request of a task; the outcome of one whose fields make none.

    A ``compute`` task says whom it asks for what. Of any other kind members that offer the kind as a tag are asked for
    the processor of that name, and given all fields.
    """
    run: JsonObject = {
        "execution": dispatch.execution_id,
        "step": dispatch.step,
        "stepRun": dispatch.step_run,
        "task": call.label,
        "kind": call.kind,
        "attempt": call.attempt,
        "element": None if dispatch.element is None else dispatch.element.index,
    }
    may_have_secrets = any(task.label == call.label and has_secrets(task) for task in dispatch.tasks)
    if call.kind != COMPUTE:
        return MemberCall(
            name=call.kind,
            tags=(call.kind,),
            timeout_ms=DEFAULT_TIMEOUT_MS,
            context="",
            data=call.fields,
            run=run,
            has_secrets=may_have_secrets,
        )
    fields = call.fields
    tags, timeout_ms = _read_tags(fields.get("tags", COMPUTE)), fields.get("timeout_ms", DEFAULT_TIMEOUT_MS)
    name, context, attaches = (
        fields.get("processor", call.label),
        fields.get("context", ""),
        fields.get("attach", False),
    )
    if tags is None:
        return _refuse(f"tags must be a text with commas or a list of texts, of {MAX_TAGS} tags at most")
    if not is_whole(timeout_ms) or not 1 <= timeout_ms <= MAX_TIMEOUT_MS:
        return _refuse(f"timeout_ms must be a number from 1 to {MAX_TIMEOUT_MS}")
    if not isinstance(name, str) or not name:
        return _refuse("processor must be a text")
    if not isinstance(context, str):
        return _refuse("context must be a text")
    if not isinstance(attaches, bool):
        return _refuse("attach must be true or false")
    if attaches:
        run |= {
            "workload": dispatch.workload,
            "ctx": dispatch.ctx,
            "args": dispatch.args,
            "results": dispatch.results,
        }
    return MemberCall(
        name=name,
        tags=tags,
        timeout_ms=timeout_ms,
        context=context,
        data=fields.get("input", {}),
        run=run,
        has_secrets=may_have_secrets,
    )


def _read_tags(given: JsonValue) -> "tuple[str, ...] | None":
    listed = given.replace(";", ",").split(",") if isinstance(given, str) else given
    if not isinstance(listed, list):
        return None
    tags = [tag.strip() for tag in listed if isinstance(tag, str)]
    if len(tags) != len(listed) or len(tags) > MAX_TAGS or any("," in tag or ";" in tag for tag in tags):
        return None
    return tuple(tag for tag in tags if tag)


def _refuse(message: str) -> Outcome:
    return fail("member_request", message, retryable=False)
