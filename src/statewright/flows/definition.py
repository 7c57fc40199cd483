"""Definitions of flows as they are uploaded and stored, and as they run (docs/reference/flows.md#definitions)."""

import re
from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import Annotated, Final, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from statewright.flows.building import compile_text
from statewright.flows.builtin_tasks import Ask, BuiltinTask, find_builtin_tasks
from statewright.flows.compiling import Flow, FlowLimits, compile_graph
from statewright.flows.graph import FlowNode
from statewright.flows.lexer import CURRENT, Rules
from statewright.flows.requests import list_misspellings
from statewright.jsonval.values import JsonObject
from statewright.net import Language, NodeId, parse_delay, parse_exact
from statewright.operations.records import Int32
from statewright.processes.changes import Backoff, JobPolicy

MAX_ID_CHARS: Final = 256
MAX_RETRIES: Final = 100
ENTITY_TYPES: Final = ("entity:read", "entity:write")
"""Jobs that no worker does, but the service."""
MAX_CONCURRENCY: Final = 1_000
MAX_POLICIES: Final = 1_000
MAX_DELIVERIES: Final = 1_000
DELIVERIES: Final = 10
"""How often a task is handed out to workers of which nothing is heard, where no policy says it."""
ANY_TASK: Final = "*"
"""The name of the policy of all tasks that have none of their own."""
MAX_PAUSE: Final = timedelta(days=30)
MAX_TIME_LIMIT: Final = timedelta(days=366)
MAX_BASE_URIS: Final = 100
MAX_URI_CHARS: Final = 2_048


_MAX_VISITS: Final = FlowLimits().max_visits


def _describe(description: str, **words: object) -> Meta:
    """What the OpenAPI document says of a setting. Its limits are checked by :func:`find_setting_defect`."""
    return Meta(description=description, extra_json_schema=words)


class TaskBackoff(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True):
    """How long a task rests after failures that may be tried again."""

    kind: Annotated[Literal["exponential", "fixed"], _describe("whether each rest is twice the one before")] = (
        "exponential"
    )
    delay: Annotated[str, _describe("the first rest, an ISO 8601 duration up to `P30D`", default="PT1S")] = "PT1S"
    max_delay: Annotated[str, _describe("the longest, likewise", default="PT10M")] = "PT10M"
    jitter: Annotated[float, _describe("by which share it varies", minimum=0, maximum=1, default=0.2)] = 0.2

    def to_backoff(self, retries: int) -> Backoff:
        """Of jobs with so many retries. Raises ``ValueError`` for what :func:`find_setting_defect` refuses."""
        return Backoff(
            retries=retries,
            delay_s=_read_duration(self.delay, MAX_PAUSE).total_seconds(),
            max_delay_s=_read_duration(self.max_delay, MAX_PAUSE).total_seconds(),
            factor=2.0 if self.kind == "exponential" else 1.0,
            jitter=self.jitter,
        )


class TaskPolicy(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True):
    """How the tasks of a name are done."""

    time_limit: Annotated[
        str | None,
        _describe(
            "how long such a task may take before it fails, of an iteration all of it, with rests and retries: an ISO"
            " 8601 duration up to `P366D`"
        ),
    ] = None
    retries: Annotated[Int32 | None, _describe("in place of those of the definition", maximum=MAX_RETRIES)] = None
    backoff: TaskBackoff | None = None
    deliveries: Annotated[
        Int32 | None,
        _describe(
            "how often it is handed out to workers that are not heard of any more, before it fails",
            minimum=1,
            maximum=MAX_DELIVERIES,
            default=DELIVERIES,
        ),
    ] = None


class FlowSettings(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True):
    """What an author may set for the instances of a definition, beside its text."""

    max_visits: Annotated[
        Int32, _describe("how often a node can be activated", maximum=_MAX_VISITS, default=_MAX_VISITS)
    ] = _MAX_VISITS
    concurrency: Annotated[
        Int32 | None,
        _describe(
            "how many elements of an iteration run at once; null: all",
            type=["integer", "null"],
            format="int32",
            maximum=MAX_CONCURRENCY,
            default=FlowLimits().iteration,
        ),
    ] = FlowLimits().iteration
    retries: Annotated[
        Int32,
        _describe(
            "how often a task that failed is tried again, where its worker says that this may help",
            maximum=MAX_RETRIES,
            default=0,
        ),
    ] = 0
    tasks: Annotated[
        dict[str, TaskPolicy],
        _describe(
            "by the name of a task, as written or after all aliases; `*`: all others", maxProperties=MAX_POLICIES
        ),
    ] = {}
    base_uri: Annotated[str, _describe("what relative references and URLs are of")] | None = None
    base_uris: Annotated[
        dict[str, str], _describe("the same by `category` or `category:environ`", maxProperties=MAX_BASE_URIS)
    ] = {}


def _read_duration(text: str, longest: timedelta) -> timedelta:
    """Raises ``ValueError``."""
    if (duration := parse_exact(text, longest)) is None:
        raise ValueError(f"must be an ISO 8601 duration up to P{longest.days}D, without months")
    return duration


def find_policy(settings: FlowSettings, node: FlowNode) -> JobPolicy:
    """How the task, the read or the write of a node is done."""
    names = (str(node.name), node.job_type, ANY_TASK)
    policy = next((settings.tasks[name] for name in names if name in settings.tasks), TaskPolicy())
    retries = settings.retries if policy.retries is None else policy.retries
    return JobPolicy(
        retries=retries,
        backoff=None if policy.backoff is None else policy.backoff.to_backoff(retries),
        deliveries=policy.deliveries,
        time_limit=None if policy.time_limit is None else parse_delay(policy.time_limit),
    )


def _list_idle_policies(settings: FlowSettings, nodes: Sequence[FlowNode]) -> list[str]:
    """What is said of policies that are those of no task, as of a name that is misspelt."""
    known = {ANY_TASK, *(str(node.name) for node in nodes), *(node.job_type for node in nodes)}
    return [f"settings.tasks[{name:.80}]: the flow has no such task" for name in settings.tasks if name not in known]


class FlowSource(Struct, frozen=True, kw_only=True):
    """A definition as its author wrote it."""

    id: str
    text: str
    settings: FlowSettings = FlowSettings()
    asks_people: bool | UnsetType = UNSET
    """Set where tasks ``ask`` are for people: in definitions that were stored before, workers do them."""


class CheckedFlow(Struct, frozen=True, kw_only=True):
    """What is told of a definition that compiles, also by another process: what was compiled stays there."""

    name: str
    description: str
    """The first line of its documentation."""
    nodes: int
    tasks: tuple[str, ...]
    """The types of the jobs that workers do, each once, in the order of the nodes."""
    asks_people: bool
    warnings: tuple[str, ...]


class FlowProcess(Struct, frozen=True, kw_only=True):
    """A version of a definition, ready to run; immutable, shared by all its instances."""

    source: FlowSource
    version: int
    flow: Flow
    builtin_tasks: dict[NodeId, BuiltinTask]
    """Of the nodes whose tasks no worker does."""
    turn_elements: int | None = None
    """How much an operation may compute before it raises ``TurnExceeded``; ``None``: any amount."""

    @property
    def name(self) -> str:
        """What the author calls it, else the id."""
        return self.flow.graph.name or self.source.id

    def describe(self) -> CheckedFlow:
        """What is told of it."""
        graph, own = self.flow.graph, {int(node) for node in self.builtin_tasks}
        nodes = [node for node in graph.nodes if node.kind in ("task", "read", "write")]
        types = (node.job_type for node in nodes if node.index not in own)
        return CheckedFlow(
            name=self.name,
            description=(graph.doc or "").strip().split("\n")[0].strip(),
            nodes=len(graph.nodes),
            tasks=tuple(dict.fromkeys(type_ for type_ in types if type_ not in ENTITY_TYPES)),
            asks_people=any(isinstance(task, Ask) for task in self.builtin_tasks.values()),
            warnings=(*graph.warnings, *list_misspellings(graph), *_list_idle_policies(self.source.settings, nodes)),
        )

    def create_language(self) -> Language:
        """The rules for one operation."""
        return self.flow.create_language(self.turn_elements)


def compile_source(source: FlowSource, version: int, rules: Rules = CURRENT) -> FlowProcess:
    """A definition as a process. Raises ``InvalidFlow``."""
    graph = compile_text(source.text, rules)
    settings = source.settings
    limits = FlowLimits(max_visits=settings.max_visits, iteration=settings.concurrency, retries=settings.retries)
    flow = compile_graph(graph, limits, partial(find_policy, settings) if settings.tasks else None)
    asks_people = source.asks_people is True or rules.asks_people
    tasks = find_builtin_tasks(graph, asks_people=asks_people)
    return FlowProcess(source=source, version=version, flow=flow, builtin_tasks=tasks)


def check_source(source: FlowSource) -> CheckedFlow:
    """What is told of a definition. Raises ``InvalidFlow``."""
    return compile_source(source, 0).describe()


def find_setting_defect(settings: FlowSettings) -> str | None:
    """What is wrong with the settings of a definition; ``None``: nothing."""
    if settings.max_visits < 1 or settings.max_visits > FlowLimits().max_visits:
        return f"settings.maxVisits must be within 1 and {FlowLimits().max_visits}"
    if settings.concurrency is not None and not 1 <= settings.concurrency <= MAX_CONCURRENCY:
        return f"settings.concurrency must be within 1 and {MAX_CONCURRENCY}"
    if not 0 <= settings.retries <= MAX_RETRIES:
        return f"settings.retries must be within 0 and {MAX_RETRIES}"
    if len(settings.tasks) > MAX_POLICIES:
        return f"settings.tasks has more than {MAX_POLICIES} members"
    for name, policy in settings.tasks.items():
        if (defect := _find_policy_defect(policy)) is not None:
            return f"settings.tasks[{name:.80}].{defect}"
    if len(settings.base_uris) > MAX_BASE_URIS:
        return f"settings.baseUris has more than {MAX_BASE_URIS} members"
    for place, uri in {"baseUri": settings.base_uri, **settings.base_uris}.items():
        if uri is not None and (len(uri) > MAX_URI_CHARS or not _URI.fullmatch(uri)):
            return f"settings: the base for {place:.80} must be a URL that begins with http:// or https://"
    return None


def _find_policy_defect(policy: TaskPolicy) -> str | None:
    counts = (("retries", policy.retries, 0, MAX_RETRIES), ("deliveries", policy.deliveries, 1, MAX_DELIVERIES))
    for name, count, least, most in counts:
        if count is not None and not least <= count <= most:
            return f"{name} must be within {least} and {most}"
    backoff = policy.backoff or TaskBackoff()
    if not 0 <= backoff.jitter <= 1:
        return "backoff.jitter must be within 0 and 1"
    durations = (
        ("timeLimit", policy.time_limit, MAX_TIME_LIMIT),
        ("backoff.delay", backoff.delay, MAX_PAUSE),
        ("backoff.maxDelay", backoff.max_delay, MAX_PAUSE),
    )
    for name, text, longest in durations:
        try:
            if text is not None and not _read_duration(text, longest):
                return f"{name} must be longer than nothing"
        except ValueError as defect:
            return f"{name} {defect}"
    return None


_URI: Final = re.compile(r"https?://[^\s/?#]+[^\s]*")


def definition_to_document(source: FlowSource, checked: CheckedFlow, version: int) -> JsonObject:
    """The record clients read, and the document of the entity but for what only the host knows."""
    settings: JsonObject = msgspec.to_builtins(source.settings)
    return {
        "id": source.id,
        "version": version,
        "name": checked.name,
        "description": checked.description,
        "source": source.text,
        "settings": settings,
        "nodes": checked.nodes,
        "tasks": list(checked.tasks),
        "warnings": list(checked.warnings),
    }
