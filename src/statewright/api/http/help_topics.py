"""What the help endpoints have to tell, drawn from the tables that run the service (spec/auth-and-operations.md §23).

Nothing is written here a second time: operations come from the routes, settings from their table, error codes from the
failures. So help cannot be outdated, and has no topic for what the service does not have.
"""

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from importlib import metadata
from typing import Final

import msgspec
from msgspec import Struct

from statewright.api.grpc.descriptions import descriptor_set, proto_sources
from statewright.api.grpc.schemas import BASE_ID, DIALECT
from statewright.api.grpc.schemas import schemas as event_schemas
from statewright.api.http.endpoints.workflows import schema_versions_body
from statewright.api.http.openapi import openapi_document
from statewright.api.http.routes import ROUTES
from statewright.api.http.routes.route import Route
from statewright.api.http.steps.routes import STEP_ROUTES
from statewright.failures import Failure, kinds
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


def build_version() -> str:
    """Of the installed program."""
    try:
        return metadata.version("statewright")
    except metadata.PackageNotFoundError:
        return "unknown"


def topics() -> list[Topic]:
    """All pages, depth first, parents before children, siblings in order."""
    pages = [_openapi(), _grpc(), _cloudevents(), _schema_version()]
    found = [*_operations(), *_steps(), *_errors(), *_settings(), *pages]
    return sorted(found, key=lambda topic: topic.id.split("."))


def _operations() -> Iterator[Topic]:
    for tag in sorted({route.tag for route in ROUTES}):
        lines = [_operation(route) for route in ROUTES if route.tag == tag]
        body = _page(tag, f"Operations of the REST API on {tag.lower()}.", OPERATIONS="\n".join(lines))
        yield Topic(id=_slug(tag), title=tag, body=body, see_also=("errors", "openapi"))


def _operation(route: Route) -> str:
    codes = f" Refusals: {', '.join(f'`{code}`' for code in route.problems)}." if route.problems else ""
    return f"- `{route.method} {route.path}` — {route.summary}.{codes}"


def _slug(tag: str) -> str:
    return TAG_TOPICS.get(tag, tag.lower())


def _steps() -> Iterator[Topic]:
    text = "The JSON step engine, at the root of the HTTP port; its errors are `{error, reason}`."
    yield Topic(id=STEPS, title="JSON step engine", body=_page("JSON step engine", text), see_also=("openapi",))
    for tag in sorted({route.tag for route in STEP_ROUTES}):
        lines = [f"- `{route.method} {route.path}` — {route.summary}." for route in STEP_ROUTES if route.tag == tag]
        text = f"Operations of the JSON step engine on {tag.removeprefix('Step ')}."
        body = _page(tag, text, OPERATIONS="\n".join(lines))
        yield Topic(id=_step_slug(tag), title=tag, body=body, see_also=(STEPS, "openapi"))


def _step_slug(tag: str) -> str:
    return f"{STEPS}.{tag.removeprefix('Step ').replace(' ', '-')}"


def _errors() -> Iterator[Topic]:
    codes = {kind.code: kind for kind in reversed(kinds())}  # of several with one code, the most general
    lines = [f"- `{code}` — {kind.status}" for code, kind in sorted(codes.items())]
    text = "Every failure has a stable code, in `properties.errorCode` over REST and before the colon of a message."
    yield Topic(id="errors", title="Error codes", body=_page("Error codes", text, CODES="\n".join(lines)))
    for code, kind in codes.items():
        retry = "The same request may succeed when it is repeated." if kind.retryable else "Repeating does not help."
        body = _page(code, _markdown(kind), STATUS=f"{kind.status}. {retry}")
        yield Topic(id=f"errors.{code}", title=code, body=body, see_also=("errors",))


def _markdown(kind: type[Failure]) -> str:
    return re.sub(r"``([^`]*)``", r"`\1`", inspect.getdoc(kind) or "")


def _settings() -> Iterator[Topic]:
    action = {"all": Action(JSON, _all_settings)}
    text = "Everything is set by environment variables, read once at the start."
    yield Topic(id="config", title="Settings", body=_page("Settings", text), actions=action)
    for section in dict.fromkeys(setting.section for setting in SETTINGS.values()):
        lines = [_line(name) for name, setting in SETTINGS.items() if setting.section == section]
        body = _page(section, f"Settings of the section “{section}”.", VARIABLES="\n".join(lines))
        yield Topic(id=_section_topic(section), title=section, body=body, see_also=("config",))


def _line(name: str) -> str:
    setting = SETTINGS[name]
    return f"- `{_variable(name)}` ({setting.reader.shape}) — {setting.meaning}"


def _variable(name: str) -> str:
    return f"STATEWRIGHT_{name.upper()}"


def _section_topic(section: str) -> str:
    return f"config.{section.lower().replace(' ', '-')}"


def _all_settings() -> bytes:
    """The defaults of this program, never what is set."""
    defaults = Settings()
    rows = [_described(name, getattr(defaults, name)) for name in SETTINGS]
    rows.sort(key=lambda row: (row["topic"], row["name"]))
    return _encode({"schema": SCHEMA, "version": build_version(), "vars": rows}) + b"\n"


def _described(name: str, default: object) -> dict[str, str]:
    setting = SETTINGS[name]
    row = {
        "name": _variable(name),
        "topic": _section_topic(setting.section),
        "type": setting.reader.shape,
        "description": setting.meaning,
    }
    return row if default in (None, "", ()) else row | {"default": setting.reader.show(default)}


def _openapi() -> Topic:
    slugs = {_slug(route.tag) for route in ROUTES} | {_step_slug(route.tag) for route in STEP_ROUTES}
    tags = "".join(f"{slug}\n" for slug in sorted(slugs))
    document = _encode(openapi_document()) + b"\n"
    actions = {
        "json": Action(JSON, lambda: document),
        "yaml": Action("application/yaml", lambda: document),  # every JSON text is YAML 1.2
        "tags": Action(TEXT, tags.encode),
    }
    text = "The description of the REST API, made from the table of routes that serves it."
    return Topic(id="openapi", title="OpenAPI document", body=_page("OpenAPI document", text), actions=actions)


def _grpc() -> Topic:
    actions = {
        "proto": Action(TEXT, lambda: proto_sources().encode()),
        "json": Action(JSON, lambda: f"{descriptor_set()}\n".encode()),
    }
    text = "The services of calculation members and CloudEvents, and of the step engine: `proto` has their sources."
    return Topic(id="grpc", title="gRPC service", body=_page("gRPC service", text), actions=actions)


def _cloudevents() -> Topic:
    text = "What the gRPC service says and understands, as JSON Schemas by category and event type."
    actions = {"json": Action(JSON, _event_schemas)}
    return Topic(id="cloudevents", title="Event payloads", body=_page("Event payloads", text), actions=actions)


def _event_schemas() -> bytes:
    head = {"schema": SCHEMA, "version": build_version(), "specVersion": DIALECT, "baseId": BASE_ID}
    return _encode(head | {"schemas": event_schemas()}) + b"\n"


def _schema_version() -> Topic:
    text = "Which import contracts for workflows this server knows; a workflow names its own in `version`."
    actions = {"versions": Action(JSON, schema_versions_body)}
    title = "Workflow schema versions"
    return Topic(id="workflows.schema-version", title=title, body=_page(title, text), actions=actions)


def _page(title: str, description: str, **sections: str) -> str:
    parts = [f"# {title}", f"## DESCRIPTION\n\n{description}"]
    return "\n\n".join([*parts, *(f"## {name}\n\n{body}" for name, body in sections.items())]) + "\n"
