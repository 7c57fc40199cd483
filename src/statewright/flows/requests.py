"""The tasks ``request:*``: what is sent, and what comes of the response (docs/reference/flows.md#requests)."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final, TypeAlias
from urllib.parse import SplitResult, quote, urlencode, urljoin, urlsplit

from msgspec import Struct

from statewright.flows.builtin_tasks import PARAMETERS, UnfilledTemplate, fill_template, find_misspelt
from statewright.flows.graph import FlowGraph
from statewright.jsonval.codec import MalformedJson, decode, encode
from statewright.jsonval.values import JsonObject, JsonValue, guess_name

METHODS: Final[Mapping[str, str]] = {
    "request:get": "GET",
    "request:post": "POST",
    "request:put": "PUT",
    "request:delete": "DELETE",
}
"""By the base name of the task."""
JSON: Final = "application/json"
_OVERRIDABLE: Final = ("url", "environ", "sync", "template", "content_type", "output_mode", "error_on_status")
"""Parameters that a member of the input overrides."""
_PARAMETERS: Final = {**PARAMETERS, **dict.fromkeys(METHODS, ("category", *_OVERRIDABLE))}
"""Of all tasks that the service does, by base name."""
_OUTPUT_MODES: Final = ("status", "response_text", "response_json")
_Escape: TypeAlias = Callable[[str, int], str]
_PASSING: Final = (408, 425, 429)
"""Statuses below 500 after which the same request may succeed."""


MAX_MISSPELLINGS: Final = 100
"""Of a flow, that are told."""
_MAX_CHECKED: Final = 1_000
"""Nodes whose names are compared, the first ones: comparing takes long."""


def list_misspellings(graph: FlowGraph) -> Iterator[str]:
    """Names of tasks and parameters that are near to those of the service, and hardly meant, with their places: as many
    as a person reads.
    """
    return islice(_list_misspellings(graph), MAX_MISSPELLINGS)


def _list_misspellings(graph: FlowGraph) -> Iterator[str]:
    suspects = (node for node in graph.nodes if str(node.base) in _PARAMETERS or ":" in str(node.base))
    for node in islice(suspects, _MAX_CHECKED):
        base, known = str(node.base), _PARAMETERS.get(str(node.base))
        if known is not None:
            told = find_misspelt(node, known)
        else:
            guess = guess_name(base, _PARAMETERS) if node.kind == "task" else ""
            told = f"{base} is no task of the service, so a worker has to do it{guess}" if guess else ""
        if told:
            line, column = node.place
            yield f"{line}:{column} {told}"


class UnusableTask(ValueError):
    """A task that cannot be done as it is, now or later; the message says why."""


class PlannedRequest(Struct, frozen=True, kw_only=True):
    """What is sent. Redirects of those that read only are followed."""

    url: str
    method: str
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    waits: bool = False
    """Whether the task goes on after the response, until another program completes its job."""

    def __repr__(self) -> str:
        return f"PlannedRequest(method={self.method!r})"  # the rest may hold secrets


class ServerAnswer(Struct, frozen=True, kw_only=True):
    """A response of any status; the media type without parameters, in lower case."""

    status: int
    media_type: str
    body: bytes

    @property
    def is_success(self) -> bool:
        """2xx."""
        return 200 <= self.status < 300

    @property
    def may_pass(self) -> bool:
        """Whether the same request may succeed later."""
        return self.status >= 500 or self.status in _PASSING


class FailedAnswer(ValueError):
    """A response that fails the task, or that there is none. ``may_pass``: the same request may succeed later."""

    def __init__(self, reason: str, *, may_pass: bool = False) -> None:
        super().__init__(reason)
        self.may_pass = may_pass


class RequestTask:
    """A task ``request:*``, from the payload of its job. Raises :class:`UnusableTask`."""

    def __init__(self, payload: JsonObject, job_id: str) -> None:
        self._payload = payload
        self._job_id = job_id
        self._input = payload.get("input")
        parameters = payload.get("parameters")
        own: JsonObject = parameters if isinstance(parameters, dict) else {}
        given: JsonObject = self._input if isinstance(self._input, dict) else {}
        self._parameters = own | {name: given[name] for name in _OVERRIDABLE if name in given}
        self._output_modes = self._read_output_modes()

    def plan(self) -> PlannedRequest:
        """What is to be sent."""
        method = METHODS[str(self._payload.get("base"))]
        url = self._build_url()
        waits = not self._read_flag("sync")
        if waits:
            separator = "&" if split_url(url, "PARAMETERS: url").query else "?"
            url = f"{url}{separator}{urlencode(self._describe_place())}"
        if method in ("GET", "DELETE"):
            return PlannedRequest(url=url, method=method, waits=waits)
        content_type = self._read_text("content_type", JSON)
        headers = (("Content-Type", content_type),)
        return PlannedRequest(url=url, method=method, headers=headers, body=self._build_body(content_type), waits=waits)

    def read_output(self, answer: ServerAnswer) -> JsonValue:
        """The input, and of the response what is wanted. Raises :class:`FailedAnswer`."""
        if self._read_flag("error_on_status") and not answer.is_success:
            raise FailedAnswer(f"REQUEST: the server answered {answer.status}", may_pass=answer.may_pass)
        output: JsonObject = {}
        if isinstance(self._input, dict):
            output |= self._input
        elif self._input:
            output["input"] = self._input
        if self._output_modes is None or "status" in self._output_modes:
            output["request_status"] = answer.status
        if self._output_modes is None:
            return output | ({"response": decode_json(answer.body)} if is_json(answer.media_type) else {})
        if "response_json" in self._output_modes:
            output["response"] = decode_json(answer.body)
        elif "response_text" in self._output_modes:
            output["response"] = decode_text(answer.body)
        return output

    def _build_url(self) -> str:
        template = self._parameters.get("url")
        if not isinstance(template, str) or not template:
            raise UnusableTask("PARAMETERS: url must be a text")
        url = self._fill(template, _escape_in_url)
        return join_reference(self._find_base() or None, url)

    def _find_base(self) -> str | None:
        """The address that a relative URL is of, by category and environ."""
        bases = self._payload.get("baseUris")
        category, environ = self._parameters.get("category"), self._parameters.get("environ")
        if category is None:
            found = self._payload.get("baseUri")
        else:
            name = str(category) if environ is None else f"{category}:{environ}"
            found = bases.get(name) if isinstance(bases, dict) else None
            if found is None:
                raise UnusableTask(f"PARAMETERS: the settings have no baseUris for {name:.80}")
        return found if isinstance(found, str) else None

    def _build_body(self, content_type: str) -> bytes:
        template = self._parameters.get("template")
        if template is None:
            return encode(self._input)
        if not isinstance(template, str):
            raise UnusableTask("PARAMETERS: template must be a text")
        plain = content_type.partition(";")[0].strip().lower()
        return self._fill(template, _escape_in_json if is_json(plain) else _keep).encode()

    def _fill(self, template: str, escape: _Escape) -> str:
        try:
            return fill_template(template, self._input, self._payload.get("parameters"), escape)
        except UnfilledTemplate as defect:
            raise UnusableTask(f"TEMPLATE: {defect}") from None

    def _describe_place(self) -> dict[str, str]:
        """For who is to complete the job."""
        place = self._payload
        return {
            "littleflow-name": str(place.get("name")),
            "littleflow-base": str(place.get("base")),
            "littleflow-index": str(place.get("node")),
            "littleflow-workflow": str(place.get("instanceId")),
            "littleflow-job": self._job_id,
        }

    def _read_output_modes(self) -> Sequence[JsonValue] | None:
        given = self._parameters.get("output_mode")
        if given is None:
            return None
        modes = given if isinstance(given, list) else [given]
        if any(mode not in _OUTPUT_MODES for mode in modes):
            raise UnusableTask(f"PARAMETERS: output_mode can be {', '.join(_OUTPUT_MODES)}")
        return modes

    def _read_flag(self, name: str) -> bool:
        given = self._parameters.get(name, True)
        if isinstance(given, bool):
            return given
        raise UnusableTask(f"PARAMETERS: {name} must be true or false")

    def _read_text(self, name: str, default: str) -> str:
        given = self._parameters.get(name, default)
        if isinstance(given, str) and given.isascii() and given.isprintable():
            return given
        raise UnusableTask(f"PARAMETERS: {name} must be a text of ASCII")


def join_reference(base: str | None, reference: str) -> str:
    """The address of a reference that may be relative; itself where it is none, which shows when it is used."""
    try:
        return reference if base is None else urljoin(base, reference)
    except ValueError:
        return reference


def split_url(url: str, place: str) -> SplitResult:
    """The parts of an address. Raises :class:`UnusableTask`, which names the place."""
    try:
        return urlsplit(url)
    except ValueError as malformed:
        raise UnusableTask(f"{place}: {malformed}") from None


def is_json(media_type: str) -> bool:
    """Whether it is JSON, by whatever name."""
    return media_type == JSON or media_type.endswith("+json")


def decode_json(body: bytes) -> JsonValue:
    """The value of a response. Raises :class:`FailedAnswer`."""
    try:
        return decode(body)
    except MalformedJson as malformed:
        raise FailedAnswer(f"RESPONSE: no JSON: {malformed}") from None


def decode_text(body: bytes) -> str:
    """The text of a response. Raises :class:`FailedAnswer`."""
    try:
        return body.decode()
    except UnicodeDecodeError:
        raise FailedAnswer("RESPONSE: the text is not UTF-8") from None


def _escape_in_url(text: str, at: int) -> str:
    """A value is a part of a path or a query, unless it is where the URL begins."""
    return quote(text, safe="") if at else text


def _escape_in_json(text: str, at: int) -> str:
    """A value stands between quotes, unless it is the beginning."""
    return encode(text).decode()[1:-1] if at else text


def _keep(text: str, at: int) -> str:
    return text
