"""The pages of help: those of the documentation as they are, and what the tables that run the service have to tell.

Operations come from the routes, settings from their table, error codes from the failures, so that help cannot be
outdated.

What a request below the help prefix is answered: the tree of all pages, one by its id, or raw output of one.
"""

import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from importlib import metadata
from typing import Final
from urllib.parse import unquote

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from statewright.api.grpc.server import (
    BASE_ID,
    DIALECT,
    build_descriptor_set,
    read_event_schemas,
    read_proto_sources,
)
from statewright.api.http.asgi import Scope, get_path
from statewright.api.http.dialects import ROUTES
from statewright.api.http.errors import build_problem
from statewright.api.http.flows import FLOW_ROUTES
from statewright.api.http.models import encode_schema_versions
from statewright.api.http.openapi import build_openapi_document
from statewright.api.http.ops.routes import OPS_ROUTES
from statewright.api.http.playbooks import PLAYBOOK_API
from statewright.api.http.response import Response, encode_json
from statewright.api.http.router import Route
from statewright.api.http.steps.routes import STEP_ROUTES
from statewright.documentation.sources import APPENDED, list_error_rows, list_linked_topics, read_documents
from statewright.failures import BadRequest, Failure, HelpTopicNotFound, MethodNotAllowed, list_kinds
from statewright.operations.entity_answers import HelpPage, HelpSection
from statewright.settings import SETTINGS, Settings
from statewright.workflow.json_schema import build_workflow_schema

JSON, TEXT = "application/json", "text/plain; charset=utf-8"
SCHEMA: Final = 1
"""Of everything that help answers in JSON."""

TAG_TOPICS: Final = {
    "Entities": "crud",
    "Statistics": "analytics",
    "Administration": "admin",
    "Signing keys": "signing-keys",
    "Trusted keys": "trusted-keys",
    "Identity providers": "identity-providers",
}
"""Topics that are not called like the tag of their operations."""

LANGUAGES: Final = {"steps": "the JSON step engine", "flows": "the flow engine", "playbooks": "the playbook engine"}
"""What the topics of process languages are about."""
_PROCESS_ROUTES: Final = (*STEP_ROUTES, *FLOW_ROUTES, *PLAYBOOK_API.routes)

SECTION_TOPICS: Final = {
    "Authentication": "auth",
    "Calculation members and callouts": "grpc",
    "Nodes of one database": "cluster",
    "Storage": "database",
    "Workflows and schedules": "scheduler",
}
"""Sections of the settings whose topic is not called like them."""


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
    stability: str = "stable"
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
    generated = [
        *_build_operation_topics(),
        *_build_process_topics(),
        _build_ops_topic(),
        *_build_error_topics(),
        *_build_setting_topics(),
        _build_openapi_topic(),
        _build_event_topic(),
        _build_version_topic(),
    ]
    found = {topic.id: topic for topic in (*generated, *_build_page_topics())}
    return sorted(found.values(), key=lambda topic: topic.id.split("."))


def _build_page_topics() -> Iterator[Topic]:
    for id_, title, text, source in read_documents():
        yield Topic(
            id=id_,
            title=title,
            body=text,
            see_also=list_linked_topics(source.page, text),
            actions=_ACTIONS.get(id_, {}),
        )


def _build_operation_topics() -> Iterator[Topic]:
    for tag in sorted({route.tag for route in ROUTES}):
        lines = [_format_operation(route) for route in ROUTES if route.tag == tag]
        body = _format_page(tag, f"Operations of the REST API on {tag.lower()}.", OPERATIONS="\n".join(lines))
        appended = APPENDED.get(_name_topic(tag))
        if appended is not None:
            body = f"{body}\n{appended.read_text()}"
        yield Topic(id=_name_topic(tag), title=tag, body=body, see_also=("errors", "openapi"))


def _format_operation(route: Route) -> str:
    codes = f" Refusals: {', '.join(f'`{code}`' for code in route.problems)}." if route.problems else ""
    return f"- `{route.method} {route.path}` — {route.summary}.{codes}"


def _name_topic(tag: str) -> str:
    return TAG_TOPICS.get(tag, tag.lower())


def _build_process_topics() -> Iterator[Topic]:
    for tag in sorted({route.tag for route in _PROCESS_ROUTES}):
        routes = [route for route in _PROCESS_ROUTES if route.tag == tag]
        lines = [f"- `{route.method} {route.path}` — {route.summary}." for route in routes]
        parent, subject = _split_process_tag(tag)
        text = f"Operations of {LANGUAGES[parent]} on {subject}."
        body = _format_page(tag, text, OPERATIONS="\n".join(lines))
        yield Topic(id=_name_process_topic(tag), title=tag, body=body, see_also=(parent, "openapi"))


def _split_process_tag(tag: str) -> tuple[str, str]:
    """The topic of a language, and what the tag is about: ``Step user tasks`` are the user tasks of steps."""
    language, _, subject = tag.partition(" ")
    return f"{language.lower()}s", subject


def _name_process_topic(tag: str) -> str:
    parent, subject = _split_process_tag(tag)
    return f"{parent}.{subject.replace(' ', '-')}"


def _build_ops_topic() -> Topic:
    lines = "\n".join(_format_operation(route) for route in OPS_ROUTES)
    title = "Operations API: calls"
    body = _format_page(title, "Operations of the API for operators and automation.", OPERATIONS=lines)
    return Topic(id="ops.calls", title=title, body=body, see_also=("ops", "openapi"))


def _build_error_topics() -> Iterator[Topic]:
    kinds = {kind.code: kind for kind in reversed(list_kinds())}  # of several with one code, the most general
    rows = list_error_rows()
    for code in sorted({*kinds, *rows}):
        body = _format_error(code, kinds.get(code), rows.get(code, []))
        yield Topic(id=f"errors.{code}", title=code, body=body, see_also=("errors",))


def _format_error(code: str, kind: type[Failure] | None, rows: Sequence[tuple[str, str, str]]) -> str:
    """The page of a code; without a ``kind`` it is one of other servers."""
    whens = "\n".join(f"- {status}: {when}" for status, when, _ in rows if when)
    properties = "\n".join(f"- {names}" for _, _, names in rows if names)
    if kind is None:
        told = "Other servers of the dialect answer this code; this one does not."
        return _format_page(code, told, STATUS=whens, **({"HERE": properties} if properties else {}))
    retry = "The same request may succeed when it is repeated." if kind.retryable else "Repeating does not help."
    sections = {"STATUS": f"{kind.status}. {retry}"}
    if whens:
        sections["WHEN"] = whens
    if properties:
        sections["PROPERTIES"] = properties
    return _format_page(code, _format_markdown(kind), **sections)


def _format_markdown(kind: type[Failure]) -> str:
    return re.sub(r"``([^`]*)``", r"`\1`", inspect.getdoc(kind) or "")


def _build_setting_topics() -> Iterator[Topic]:
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
    return f"config.{SECTION_TOPICS.get(section) or section.lower().replace(' ', '-')}"


@cache
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
    slugs = {_name_topic(route.tag) for route in ROUTES} | {_name_process_topic(route.tag) for route in _PROCESS_ROUTES}
    tags = "".join(f"{slug}\n" for slug in sorted(slugs))
    document = _encode(build_openapi_document()) + b"\n"
    actions = {
        "json": Action(JSON, lambda: document),
        "yaml": Action("application/yaml", lambda: document),  # every JSON text is YAML 1.2
        "tags": Action(TEXT, tags.encode),
    }
    text = "The description of the REST API, made from the table of routes that serves it."
    return Topic(id="openapi", title="OpenAPI document", body=_format_page("OpenAPI document", text), actions=actions)


def build_openapi_slice(slug: str | None) -> dict[str, object] | None:
    """The description with the operations of one tag alone, which is named as ``openapi tags`` lists it; None for a
    name that is none. Without a ``slug`` all of it.
    """
    document = build_openapi_document()
    if slug is None:
        return document
    names = {_name_topic(route.tag): route.tag for route in ROUTES}
    names |= {_name_process_topic(route.tag): route.tag for route in _PROCESS_ROUTES}
    tag = names.get(slug)
    if tag is None:
        return None
    paths: dict[str, dict[str, object]] = {}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            if isinstance(operation, dict) and tag in operation.get("tags", ()):
                paths.setdefault(path, {})[method] = operation
    return document | {"paths": paths, "tags": [each for each in document["tags"] if each["name"] == tag]}


def _build_event_topic() -> Topic:
    text = "What the gRPC service says and understands, as JSON Schemas by category and event type."
    actions = {"json": Action(JSON, _encode_event_schemas)}
    return Topic(id="cloudevents", title="Event payloads", body=_format_page("Event payloads", text), actions=actions)


@cache
def _encode_event_schemas() -> bytes:
    head = {"schema": SCHEMA, "version": read_version(), "specVersion": DIALECT, "baseId": BASE_ID}
    return _encode(head | {"schemas": read_event_schemas()}) + b"\n"


def _build_version_topic() -> Topic:
    text = "Which import contracts for workflows this server knows; a workflow names its own in `version`."
    actions = {"versions": Action(JSON, encode_schema_versions)}
    title = "Workflow schema versions"
    return Topic(id="workflows.schema-version", title=title, body=_format_page(title, text), actions=actions)


@cache
def _encode_workflow_schema() -> bytes:
    return _encode(build_workflow_schema()) + b"\n"


_ACTIONS: Final[Mapping[str, Mapping[str, Action]]] = {
    "config": {"all": Action(JSON, _encode_settings)},
    "grpc": {
        "proto": Action(TEXT, lambda: read_proto_sources().encode()),
        "json": Action(JSON, lambda: f"{build_descriptor_set()}\n".encode()),
    },
    "workflows": {"schema": Action("application/schema+json", _encode_workflow_schema)},
}
"""Raw output of topics that are pages."""


def _format_page(title: str, description: str, **sections: str) -> str:
    parts = [f"# {title}", f"## DESCRIPTION\n\n{description}"]
    return "\n\n".join([*parts, *(f"## {name}\n\n{body}" for name, body in sections.items())]) + "\n"


MARKDOWN: Final = "text/markdown; charset=utf-8"

_NAME: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._/-]*[A-Za-z0-9])?")
_PARAGRAPH: Final = re.compile(r"\n\s*\n")
_SECTION: Final = re.compile(r"^## +(.+?) *\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
_TITLE: Final = re.compile(r"\A# [^\n]*\n")


class Help:
    """The pages of this program, below ``prefix``."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._topics: Final = {topic.id: topic for topic in build_topics()}
        self._tree: bytes | None = None

    def answer(self, scope: Scope) -> Response:
        """What a request below the prefix gets. Raises ``BadRequest``, ``HelpTopicNotFound``."""
        path = unquote(get_path(scope))
        if scope["method"] not in {"GET", "HEAD"}:
            context_path = self._prefix.removesuffix("/help")
            refused = build_problem(MethodNotAllowed(), path, context_path=context_path)
            return replace(refused, headers=((b"allow", b"GET"),))
        name = path.removeprefix(self._prefix)
        return self._find_topic(name[1:]) if name else self._list_topics()

    def _list_topics(self) -> Response:
        if self._tree is None:
            found = [*map(self._build_page, self._topics.values())]
            self._tree = encode_json({"schema": SCHEMA, "version": read_version(), "topics": found})
        return Response(self._tree)

    def describe_topics(self) -> dict[str, dict[str, object]]:
        """The descriptors of all pages by id, parents before children."""
        return {topic.id: msgspec.to_builtins(self._build_page(topic)) for topic in self._topics.values()}

    def run_action(self, parts: Sequence[str]) -> bytes | None:
        """The raw output that the last part names, of the topic that is named by the others; None: there is none."""
        action = self._find_action(parts)
        return None if action is None else action.output()

    def _find_topic(self, name: str) -> Response:
        parts = re.split(r"[./]", name)
        if not _NAME.fullmatch(name) or "" in parts:
            raise BadRequest(f"{name!r} is no help topic")
        topic = self._topics.get(".".join(parts))
        if topic is not None:
            return Response(encode_json(self._build_page(topic)))
        action = self._find_action(parts)
        if action is not None:
            return Response(action.output(), media_type=action.media_type)
        return self._find_form(name, parts)

    def _find_form(self, name: str, parts: Sequence[str]) -> Response:
        """A page as ``<topic>.md``, its text alone, or ``<topic>.json``. Raises ``HelpTopicNotFound``."""
        topic = self._topics.get(".".join(parts[:-1]))
        if topic is not None and name.endswith(".md"):
            return Response(topic.body.encode(), media_type=MARKDOWN)
        if topic is not None and name.endswith(".json"):
            return Response(encode_json(self._build_page(topic)))
        raise HelpTopicNotFound(f"no such help topic: {name}")

    def _find_action(self, parts: Sequence[str]) -> Action | None:
        topic = self._topics.get(".".join(parts[:-1]))
        return None if topic is None else topic.actions.get(parts[-1])

    def _build_page(self, topic: Topic) -> HelpPage:
        return HelpPage(
            topic=topic.id,
            path=topic.id.split("."),
            title=topic.title,
            synopsis=_extract_synopsis(topic.body),
            body=topic.body,
            sections=[HelpSection(name=name, body=body.strip()) for name, body in _SECTION.findall(topic.body)],
            see_also=[other for other in topic.see_also if other in self._topics and other != topic.id],
            stability=topic.stability,
            actions=tuple(topic.actions),
            children=tuple(other for other in self._topics if other.rpartition(".")[0] == topic.id),
        )


def _extract_synopsis(body: str) -> str:
    """The first paragraph of the section that describes, else of the page."""
    described = dict(_SECTION.findall(body)).get("DESCRIPTION") or _TITLE.sub("", body)
    return _PARAGRAPH.split(described.strip(), maxsplit=1)[0]
