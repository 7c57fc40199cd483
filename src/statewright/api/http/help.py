"""The help endpoints (docs/reference/service.md#help), which need no credentials.

What they have to tell is drawn from the tables that run the service: operations come from the routes, settings from
their table, error codes from the failures. So help cannot be outdated, and has no topic for what the service does not
have.
"""

import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import metadata
from typing import Final
from urllib.parse import unquote

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from statewright.api.grpc.schemas import BASE_ID, DIALECT, build_descriptor_set, read_proto_sources
from statewright.api.grpc.schemas import build_schemas as event_schemas
from statewright.api.http.asgi import Scope
from statewright.api.http.dialects import ROUTES
from statewright.api.http.errors import build_problem
from statewright.api.http.openapi import build_openapi_document
from statewright.api.http.response import Response, encode_json
from statewright.api.http.router import Route
from statewright.api.http.steps.routes import STEP_ROUTES
from statewright.api.http.workflows import encode_schema_versions
from statewright.failures import BadRequest, Failure, HelpTopicNotFound, MethodNotAllowed, list_kinds
from statewright.settings import SETTINGS, Settings

JSON, TEXT = "application/json", "text/plain; charset=utf-8"
SCHEMA: Final = 1
"""Of everything that help answers in JSON."""

TAG_TOPICS: Final = {"Entities": "crud", "Statistics": "analytics", "Administration": "admin"}
"""Topics that are not called like the tag of their operations."""

STEPS: Final = "steps"


class Action(Struct, frozen=True):
    """Raw output that a topic offers."""

    media_type: str
    output: Callable[[], bytes]


class Topic(Struct, frozen=True, kw_only=True):
    """A page. ``id`` is dotted; a part before a dot is the id of its parent, which exists. ``body`` is Markdown."""

    id: str
    title: str
    body: str
    see_also: tuple[str, ...] = ()
    actions: Mapping[str, Action] = {}


_encode = msgspec.json.Encoder(order="sorted").encode


def read_version() -> str:
    """Of the installed program."""
    try:
        return metadata.version("statewright")
    except metadata.PackageNotFoundError:
        return "unknown"


def build_topics() -> list[Topic]:
    """All pages, depth first, parents before children, siblings in order."""
    pages = [_build_openapi_topic(), _build_grpc_topic(), _build_event_topic(), _build_version_topic()]
    found = [
        *_build_operation_topics(),
        *_build_step_topics(),
        *_build_error_topics(),
        *_build_setting_topics(),
        *pages,
    ]
    return sorted(found, key=lambda topic: topic.id.split("."))


def _build_operation_topics() -> Iterator[Topic]:
    for tag in sorted({route.tag for route in ROUTES}):
        lines = [_format_operation(route) for route in ROUTES if route.tag == tag]
        body = _format_page(tag, f"Operations of the REST API on {tag.lower()}.", OPERATIONS="\n".join(lines))
        yield Topic(id=_name_topic(tag), title=tag, body=body, see_also=("errors", "openapi"))


def _format_operation(route: Route) -> str:
    codes = f" Refusals: {', '.join(f'`{code}`' for code in route.problems)}." if route.problems else ""
    return f"- `{route.method} {route.path}` — {route.summary}.{codes}"


def _name_topic(tag: str) -> str:
    return TAG_TOPICS.get(tag, tag.lower())


def _build_step_topics() -> Iterator[Topic]:
    text = "The JSON step engine, at the root of the HTTP port; its errors are `{error, reason}`."
    yield Topic(id=STEPS, title="JSON step engine", body=_format_page("JSON step engine", text), see_also=("openapi",))
    for tag in sorted({route.tag for route in STEP_ROUTES}):
        lines = [f"- `{route.method} {route.path}` — {route.summary}." for route in STEP_ROUTES if route.tag == tag]
        text = f"Operations of the JSON step engine on {tag.removeprefix('Step ')}."
        body = _format_page(tag, text, OPERATIONS="\n".join(lines))
        yield Topic(id=_name_step_topic(tag), title=tag, body=body, see_also=(STEPS, "openapi"))


def _name_step_topic(tag: str) -> str:
    return f"{STEPS}.{tag.removeprefix('Step ').replace(' ', '-')}"


def _build_error_topics() -> Iterator[Topic]:
    codes = {kind.code: kind for kind in reversed(list_kinds())}  # of several with one code, the most general
    lines = [f"- `{code}` — {kind.status}" for code, kind in sorted(codes.items())]
    text = "Every failure has a stable code, in `properties.errorCode` over REST and before the colon of a message."
    yield Topic(id="errors", title="Error codes", body=_format_page("Error codes", text, CODES="\n".join(lines)))
    for code, kind in codes.items():
        retry = "The same request may succeed when it is repeated." if kind.retryable else "Repeating does not help."
        body = _format_page(code, _format_markdown(kind), STATUS=f"{kind.status}. {retry}")
        yield Topic(id=f"errors.{code}", title=code, body=body, see_also=("errors",))


def _format_markdown(kind: type[Failure]) -> str:
    return re.sub(r"``([^`]*)``", r"`\1`", inspect.getdoc(kind) or "")


def _build_setting_topics() -> Iterator[Topic]:
    action = {"all": Action(JSON, _encode_settings)}
    text = "Everything is set by environment variables, read once at the start."
    yield Topic(id="config", title="Settings", body=_format_page("Settings", text), actions=action)
    for section in dict.fromkeys(setting.section for setting in SETTINGS.values()):
        lines = [_format_setting(name) for name, setting in SETTINGS.items() if setting.section == section]
        body = _format_page(section, f"Settings of the section “{section}”.", VARIABLES="\n".join(lines))
        yield Topic(id=_name_section_topic(section), title=section, body=body, see_also=("config",))


def _format_setting(name: str) -> str:
    setting = SETTINGS[name]
    return f"- `{_format_variable(name)}` ({setting.reader.shape}) — {setting.meaning}"


def _format_variable(name: str) -> str:
    return f"STATEWRIGHT_{name.upper()}"


def _name_section_topic(section: str) -> str:
    return f"config.{section.lower().replace(' ', '-')}"


def _encode_settings() -> bytes:
    """The defaults of this program, never what is set."""
    defaults = Settings()
    rows = [_describe_setting(name, getattr(defaults, name)) for name in SETTINGS]
    rows.sort(key=lambda row: (row["topic"], row["name"]))
    return _encode({"schema": SCHEMA, "version": read_version(), "vars": rows}) + b"\n"


def _describe_setting(name: str, default: object) -> dict[str, str]:
    setting = SETTINGS[name]
    row = {
        "name": _format_variable(name),
        "topic": _name_section_topic(setting.section),
        "type": setting.reader.shape,
        "description": setting.meaning,
    }
    return row if default in (None, "", ()) else row | {"default": setting.reader.show(default)}


def _build_openapi_topic() -> Topic:
    slugs = {_name_topic(route.tag) for route in ROUTES} | {_name_step_topic(route.tag) for route in STEP_ROUTES}
    tags = "".join(f"{slug}\n" for slug in sorted(slugs))
    document = _encode(build_openapi_document()) + b"\n"
    actions = {
        "json": Action(JSON, lambda: document),
        "yaml": Action("application/yaml", lambda: document),  # every JSON text is YAML 1.2
        "tags": Action(TEXT, tags.encode),
    }
    text = "The description of the REST API, made from the table of routes that serves it."
    return Topic(id="openapi", title="OpenAPI document", body=_format_page("OpenAPI document", text), actions=actions)


def _build_grpc_topic() -> Topic:
    actions = {
        "proto": Action(TEXT, lambda: read_proto_sources().encode()),
        "json": Action(JSON, lambda: f"{build_descriptor_set()}\n".encode()),
    }
    text = "The services of calculation members and CloudEvents, and of the step engine: `proto` has their sources."
    return Topic(id="grpc", title="gRPC service", body=_format_page("gRPC service", text), actions=actions)


def _build_event_topic() -> Topic:
    text = "What the gRPC service says and understands, as JSON Schemas by category and event type."
    actions = {"json": Action(JSON, _encode_event_schemas)}
    return Topic(id="cloudevents", title="Event payloads", body=_format_page("Event payloads", text), actions=actions)


def _encode_event_schemas() -> bytes:
    head = {"schema": SCHEMA, "version": read_version(), "specVersion": DIALECT, "baseId": BASE_ID}
    return _encode(head | {"schemas": event_schemas()}) + b"\n"


def _build_version_topic() -> Topic:
    text = "Which import contracts for workflows this server knows; a workflow names its own in `version`."
    actions = {"versions": Action(JSON, encode_schema_versions)}
    title = "Workflow schema versions"
    return Topic(id="workflows.schema-version", title=title, body=_format_page(title, text), actions=actions)


def _format_page(title: str, description: str, **sections: str) -> str:
    parts = [f"# {title}", f"## DESCRIPTION\n\n{description}"]
    return "\n\n".join([*parts, *(f"## {name}\n\n{body}" for name, body in sections.items())]) + "\n"


_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._/-]*[A-Za-z0-9])?")
_PARAGRAPH = re.compile(r"\n\s*\n")
_SECTION = re.compile(r"^## +(.+?) *\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)


class Help:
    """The pages of this program, below ``prefix``: the tree of them all, one by its id, or raw output of one."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._topics: Final = {topic.id: topic for topic in build_topics()}

    def answer(self, scope: Scope) -> Response:
        """What a request below the prefix gets. Raises ``BadRequest``, ``HelpTopicNotFound``."""
        raw: bytes = scope.get("raw_path") or scope["path"].encode()
        path = unquote(raw.decode("latin-1").partition("?")[0])
        if scope["method"] not in {"GET", "HEAD"}:
            return replace(build_problem(MethodNotAllowed(), path), headers=((b"allow", b"GET"),))
        name = path.removeprefix(self._prefix)
        return self._find_topic(name[1:]) if name else self._list_topics()

    def _list_topics(self) -> Response:
        found = [self._describe_topic(topic) for topic in self._topics.values()]
        return Response(encode_json({"schema": SCHEMA, "version": read_version(), "topics": found}))

    def _find_topic(self, name: str) -> Response:
        parts = re.split(r"[./]", name)
        if not _NAME.fullmatch(name) or "" in parts:
            raise BadRequest(f"{name!r} is no help topic")
        topic = self._topics.get(".".join(parts))
        if topic is not None:
            return Response(encode_json(self._describe_topic(topic)))
        action = self._find_action(parts)
        if action is None:
            raise HelpTopicNotFound(f"no such help topic: {name}")
        return Response(action.output(), media_type=action.media_type)

    def _find_action(self, parts: Sequence[str]) -> Action | None:
        topic = self._topics.get(".".join(parts[:-1]))
        return None if topic is None else topic.actions.get(parts[-1])

    def _describe_topic(self, topic: Topic) -> dict[str, object]:
        sections = [{"name": name, "body": body.strip()} for name, body in _SECTION.findall(topic.body)]
        children = [other for other in self._topics if other.rpartition(".")[0] == topic.id]
        descriptor: dict[str, object] = {
            "topic": topic.id,
            "path": topic.id.split("."),
            "title": topic.title,
            "synopsis": _extract_synopsis(topic.body),
            "body": topic.body,
            "sections": sections,
            "see_also": topic.see_also,
            "stability": "stable",
            "actions": tuple(topic.actions),
        }
        return descriptor | {"children": children} if children else descriptor


def _extract_synopsis(body: str) -> str:
    """The first paragraph of the section that describes, else of the page."""
    described = dict(_SECTION.findall(body)).get("DESCRIPTION", body)
    return _PARAGRAPH.split(described.strip(), maxsplit=1)[0]
