"""The table of a language's routes, made from what the language is called and what can be asked of its instances."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Final, TypeVar

from msgspec import Struct

from statewright.api.http.application import ErrorFormat
from statewright.api.http.processes.bodies import DEFAULT_TIMEOUT, KNOWING_ERRORS, PAGE, Parameter, ProcessRoute
from statewright.api.http.processes.event_log import LogInterface
from statewright.api.http.processes.interface import ProcessInterface
from statewright.api.http.response import JSON, TEXT
from statewright.api.http.router import Method
from statewright.operations.idempotency import Recording
from statewright.operations.process_nouns import Nouns
from statewright.processes.language import I, P
from statewright.services.processes.dialects import DrawingOption, Verb

S = TypeVar("S")

_OPTIONS: Final[Mapping[DrawingOption, Parameter]] = {
    "direction": Parameter("direction", "string", "`LR`, which is the default, or `TB`"),
    "docs": Parameter("docs", "boolean", "with the documentation of tasks as notes"),
    "format": Parameter("format", "string", "`mermaid`, which is the default, or `graph`: the compiled form as JSON"),
}
_LOG_PARAMETERS: Final = (
    Parameter("after", "integer", "`seq` of the last event that is known; 0 when absent"),
    Parameter("limit", "integer", "1 to 1000, 100 when absent"),
)


class ProcessApi(Struct, frozen=True, kw_only=True):
    """The REST interface of a process language."""

    roots: tuple[str, ...]
    routes: tuple[ProcessRoute, ...]
    errors: ErrorFormat = KNOWING_ERRORS


def build_api(interface: ProcessInterface[S, P, I], *, source_types: tuple[str, ...] = (JSON,)) -> ProcessApi:
    """That of a language without routes of its own; definitions come as ``source_types``."""
    nouns = interface.dialect.nouns
    roots = (nouns.definitions_path, nouns.instances_path)
    return ProcessApi(roots=roots, routes=tuple(build_table(interface, source_types=source_types).values()))


class Template(Struct, frozen=True, kw_only=True):
    """A route that languages have alike. Its texts have the nouns of the language in braces."""

    role: str
    method: Method = "GET"
    path: str
    name: str
    summary: str
    reply: str
    """The role of its schema; the name follows the title of the language."""
    of: str
    """The noun in its tag."""
    body: str = ""
    status: int = 200
    errors: tuple[int, ...] = ()
    recording: Recording = "commit"
    is_read: bool = False
    timeout: timedelta | None = DEFAULT_TIMEOUT


_TEMPLATES: Final = (
    Template(
        role="upload",
        method="POST",
        path="{definitions_path}",
        name="upload{Title}",
        of="definitions",
        summary="Store {a_definition} as its next version; the same content again is the same version",
        body="source",
        status=201,
        reply="upload",
        errors=(400, 413),
    ),
    Template(
        role="validate",
        method="POST",
        path="{validate_path}",
        name="validate{Title}",
        of="definitions",
        summary="Check {a_definition}, and store nothing",
        body="source",
        reply="check",
        errors=(400, 413),
        recording="nothing",
        is_read=True,
    ),
    Template(
        role="definitions",
        path="{definitions_path}",
        name="list{Title}s",
        of="definitions",
        summary="{Definitions} by {id_member}, each with its latest version",
        reply="summaries",
    ),
    Template(
        role="definition",
        path="{definition_path}",
        name="get{Title}",
        of="definitions",
        summary="The latest version of {a_definition}",
        reply="definition",
        errors=(404,),
    ),
    Template(
        role="versions",
        path="{definition_path}/versions",
        name="list{Title}Versions",
        of="definitions",
        summary="All versions of {a_definition}",
        reply="versions",
        errors=(404,),
    ),
    Template(
        role="version",
        path="{definition_path}/versions/{version}",
        name="get{Title}Version",
        of="definitions",
        summary="One version of {a_definition}",
        reply="definition",
        errors=(400, 404),
    ),
    Template(
        role="draw",
        path="{definition_path}/diagram",
        name="draw{Title}",
        of="definitions",
        summary="The latest version as a Mermaid {diagram}",
        reply="diagram",
        errors=(400, 404),
    ),
    Template(
        role="draw_version",
        path="{definition_path}/versions/{version}/diagram",
        name="draw{Title}Version",
        of="definitions",
        summary="One version as a Mermaid {diagram}",
        reply="diagram",
        errors=(400, 404),
    ),
    Template(
        role="start",
        method="POST",
        path="{instances_path}",
        name="start{Title}",
        of="instances",
        summary="Start {an_instance}; the answer is as it stands after all the {nodes} that need nobody",
        body="start",
        status=201,
        reply="instance",
        errors=(400, 404, 409, 413),
    ),
    Template(
        role="instances",
        path="{instances_path}",
        name="list{Title}Instances",
        of="instances",
        summary="{Instances}, the newest first",
        reply="instances",
    ),
    Template(
        role="instance",
        path="{instance_path}",
        name="get{Title}Instance",
        of="instances",
        summary="{An_instance} as it is now",
        reply="instance",
        errors=(404,),
    ),
    Template(
        role="history",
        path="{instance_path}/history",
        name="get{Title}History",
        of="instances",
        summary="{entry}, oldest first",
        reply="history",
        errors=(404,),
    ),
    Template(
        role="draw_instance",
        path="{instance_path}/diagram",
        name="draw{Title}Instance",
        of="instances",
        summary="{drawn_instance}",
        reply="diagram",
        errors=(400, 404),
    ),
    Template(
        role="events",
        path="{instance_path}/events",
        name="list{Subject}Events",
        of="instances",
        summary="The event log behind a number; with `Accept: text/event-stream` as it grows, until the end",
        reply="events",
        errors=(400, 404, 429),
        timeout=None,
    ),
    Template(
        role="value",
        path="{instance_path}/values/{value}",
        name="get{Subject}Value",
        of="instances",
        summary="A large value of the event log, by the name that `references` of its events have",
        reply="value",
        errors=(404,),
    ),
)


def build_table(
    interface: ProcessInterface[S, P, I],
    *,
    source_types: tuple[str, ...] = (JSON,),
    source_query: tuple[Parameter, ...] = (),
) -> Mapping[str, ProcessRoute]:
    """The routes of all languages for this one by their roles, and those of its verbs by their names. Definitions come
    as ``source_types``, with ``source_query``.
    """
    nouns = interface.dialect.nouns
    options = tuple(_OPTIONS[option] for option in interface.dialect.drawing_options)
    queries = {
        "upload": source_query,
        "validate": source_query,
        "definitions": (Parameter("keyword", "string", f"a part of name or {nouns.id_member}, in any case"), *PAGE),
        "draw": options,
        "draw_version": options,
        "instances": _list_filters(nouns),
        "history": PAGE,
        "draw_instance": tuple(option for option in options if option.name != "format"),
        "events": _LOG_PARAMETERS,
    }
    endpoints = {
        "upload": interface.upload,
        "validate": interface.validate,
        "definitions": interface.list_definitions,
        "definition": interface.get_latest,
        "versions": interface.list_versions,
        "version": interface.get_version,
        "draw": interface.draw_latest,
        "draw_version": interface.draw_version,
        "start": interface.start,
        "instances": interface.list_instances,
        "instance": interface.get_instance,
        "history": interface.list_history,
        "draw_instance": interface.draw_instance,
    }
    if not nouns.validate_path:
        del endpoints["validate"]
    if (render := interface.dialect.render_event) is not None:
        log = LogInterface(interface.dialect.find_host, render)
        endpoints |= {"events": log.list_events, "value": log.read_value}
    words = _list_words(nouns)
    made = {
        (role := template.role): ProcessRoute(
            method=template.method,
            path=template.path.format_map(words),
            endpoint=endpoints[template.role],
            recording=template.recording,
            is_read=template.is_read,
            id=nouns.names.get(template.role) or template.name.format_map(words),
            tag=name_tag(nouns, template.of),
            summary=nouns.summaries.get(template.role) or template.summary.format_map(words),
            query=queries.get(role, ()),
            body=name_schema(nouns, template.body) if template.body else None,
            body_types=source_types if template.body == "source" else (JSON,),
            status=template.status,
            reply=name_schema(nouns, template.reply),
            media_type=TEXT if template.reply == "diagram" else JSON,
            other_replies=((JSON, name_schema(nouns, "graph")),) if _OPTIONS["format"] in queries.get(role, ()) else (),
            errors=template.errors,
            timeout=template.timeout,
            is_ours=True,
        )
        for template in _TEMPLATES
        if template.role in endpoints
    }
    return made | {verb.name: _build_verb_route(interface, verb) for verb in interface.dialect.verbs}


def name_schema(nouns: Nouns, role: str) -> str:
    """What a schema of a language is called."""
    return nouns.schemas.get(role) or f"{nouns.title}{role.capitalize()}"


def name_tag(nouns: Nouns, of: str) -> str:
    """The tag of operations on definitions or on instances."""
    return f"{nouns.title} {'definitions' if of == 'definitions' else nouns.instances}"


def _build_verb_route(interface: ProcessInterface[S, P, I], verb: Verb[P, I]) -> ProcessRoute:
    nouns = interface.dialect.nouns
    return ProcessRoute(
        method="POST",
        path=f"{nouns.instances_path}/{{id}}/{verb.path or verb.name}",
        endpoint=interface.build_verb_endpoint(verb),
        id=verb.id or f"{verb.name}{nouns.subject}",
        tag=verb.tag or name_tag(nouns, "instances"),
        summary=verb.summary,
        body=verb.body or None,
        body_required=verb.use != "optional",
        status=200 if verb.answers else 204,
        reply=name_schema(nouns, "instance") if verb.answers else None,
        errors=verb.errors,
        is_ours=True,
    )


def _list_filters(nouns: Nouns) -> tuple[Parameter, ...]:
    kind = "definition" if nouns.definition_member == "definitionId" else nouns.definition
    return (
        Parameter(nouns.definition_member, "string", f"only of this {kind}"),
        Parameter(nouns.status_member, "string", f"only in this {nouns.status_member}; an unknown one matches nothing"),
        Parameter("businessKey", "string", "only with this business key"),
        *PAGE,
    )


def _list_words(nouns: Nouns) -> Mapping[str, str]:
    an_instance = _add_article(nouns.instance)
    return {
        "Title": nouns.title,
        "Subject": nouns.subject,
        "a_definition": _add_article(nouns.definition),
        "Definitions": nouns.definitions.capitalize(),
        "an_instance": an_instance,
        "An_instance": an_instance.capitalize(),
        "Instances": nouns.instances.capitalize(),
        "id_member": nouns.id_member,
        "nodes": nouns.nodes,
        "entry": nouns.entry,
        "diagram": nouns.diagram,
        "drawn_instance": nouns.drawn_instance,
        "definitions_path": nouns.definitions_path,
        "definition_path": f"{nouns.definitions_path}/{{{nouns.id_member}}}",
        "validate_path": nouns.validate_path,
        "instances_path": nouns.instances_path,
        "instance_path": f"{nouns.instances_path}/{{id}}",
        "version": "{version}",
        "value": "{value}",
    }


def _add_article(noun: str) -> str:
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"
