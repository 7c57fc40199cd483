"""The process languages as the console knows them: where the API has each of them, and how a definition is read and
drawn (docs/console.md#pages).
"""

from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

from msgspec import Struct

from statewright.console.calls import ApiCall, Method, Parameters, build_root_call, pick_members
from statewright.console.diagrams.petri import read_playbook
from statewright.console.diagrams.process import ProcessGraph, read_compiled, read_playbook_net, read_steps
from statewright.console.request import InvalidField
from statewright.console.views.page import encode_segment
from statewright.console.views.records import DefinitionRecord
from statewright.jsonval.values import JsonObject
from statewright.operations.process_nouns import FLOW_NOUNS, PLAYBOOK_NOUNS, STEP_NOUNS, Nouns

CROCKFORD: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
ULID_CHARS: Final = 26
JSON: Final = "application/json"
MODELS: Final = frozenset(
    {
        *("StepWorkflowDefinition", "StepWorkflowInstance", "StepUserTask"),
        *("FlowDefinition", "FlowInstance", "PlaybookDefinition", "PlaybookExecution"),
    }
)
"""The models in which the service keeps processes: each tenant has them (docs/process-languages.md)."""

ReadGraph: TypeAlias = Callable[[JsonObject], "ProcessGraph | None"]


class ProcessLanguage(Struct, frozen=True, kw_only=True):
    """A language. What is not said of one is as for a language whose definitions are JSON, and whose diagrams the API
    gives as graphs.
    """

    nouns: Nouns
    code: str
    """That of addresses and badges."""
    title: str
    """Of its list of definitions."""
    key: str | None = None
    """Leads to that list, after ``g``."""
    is_compiled: bool = True
    """Whether the API is asked for the graph; else it is read from the definition."""
    read_graph: ReadGraph = read_compiled
    picture: str = "Diagram"
    """What the picture is called."""
    note: str = ""
    """What is to be said of it."""
    source: str = "Definition as JSON"
    media_type: str = JSON
    """Of the text of a definition."""
    example: str = "{}"
    empty: str = ""
    """What is said where there is no definition."""
    upload_query: Parameters = {}
    has_warnings: bool = False
    """Whether what looks like a mistake is asked for by itself, and versions are in the list of definitions."""
    takes_id: bool = False
    """Whether a text is uploaded under an id that may be given."""
    documents: tuple[tuple[str, str], ...] = (("Input", "input"), ("Result", "result"))
    """Of an instance: what they are called, and the members of its record that they are."""

    @property
    def name(self) -> str:
        """As the operations API calls it."""
        return self.nouns.language

    @property
    def page(self) -> str:
        """The segment of its pages."""
        return self.nouns.definitions

    @property
    def parameter(self) -> str:
        """The name of the id in the paths of its pages."""
        return self.nouns.definition

    @property
    def is_json(self) -> bool:
        """Whether definitions are JSON, and shown as the API gives them."""
        return self.media_type == JSON

    @property
    def can_check(self) -> bool:
        """Whether the API checks definitions without storing them."""
        return bool(self.nouns.validate_path)

    def build_path(self, *segments: str | int) -> str:
        """The path of a page of its definitions."""
        return "".join(["/console/", self.page, *(f"/{encode_segment(str(each))}" for each in segments)])

    def call_definitions(self, *segments: str | int, query: Parameters | None = None) -> ApiCall:
        """A call that reads definitions."""
        return build_root_call(*_split(self.nouns.definitions_path), *segments, query=query)

    def call_instances(
        self, *segments: str | int, method: Method = "GET", query: Parameters | None = None, body: bytes | None = None
    ) -> ApiCall:
        """A call about its instances."""
        path = _split(self.nouns.instances_path)
        return build_root_call(*path, *segments, method=method, query=query, body=body)

    def start(self, definition: str, version: int, values: JsonObject, business_key: str) -> JsonObject:
        """The body that starts an instance; version 0 is the latest."""
        nouns = self.nouns
        body: JsonObject = {nouns.definition_member: definition, nouns.input_member: values}
        if version:
            body[nouns.version_member] = version
        return body | ({"businessKey": business_key} if business_key else {})


def _split(path: str) -> list[str]:
    return path.strip("/").split("/")


def _read_playbook(definition: JsonObject) -> ProcessGraph | None:
    source = read_playbook(pick_members(definition, DefinitionRecord).source)
    return None if source is None else read_playbook_net(source)


STEPS: Final = ProcessLanguage(
    nouns=STEP_NOUNS,
    code="steps",
    title="Step definitions",
    key="d",
    is_compiled=False,
    read_graph=read_steps,
    upload_query={"warnings": True},
    has_warnings=True,
    documents=(("All variables", "variables"),),
    empty="There is no step definition yet. It says in JSON which steps a process has, and who does them.",
    example="""{
  "id": "greeting",
  "name": "Greeting",
  "steps": [
    {"id": "ask", "name": "Ask for a name", "type": "USER_TASK", "nextStep": "mail"},
    {"id": "mail", "name": "Send a mail", "type": "SERVICE_TASK", "jobType": "send-mail", "nextStep": "end"},
    {"id": "end", "name": "End", "type": "END"}
  ]
}""",
)
FLOWS: Final = ProcessLanguage(
    nouns=FLOW_NOUNS,
    code="flow",
    title="Flows",
    key="f",
    media_type="text/plain",
    source="Text of the flow",
    takes_id=True,
    empty="There is no flow yet. A flow is a line of text: tasks, and arrows between them.",
    example="@flow orders\nload → [charge | pack] → ship",
)
PLAYBOOKS: Final = ProcessLanguage(
    nouns=PLAYBOOK_NOUNS,
    code="playbook",
    title="Playbooks",
    key="p",
    is_compiled=False,
    read_graph=_read_playbook,
    picture="Petri net",
    note=" A circle before a step holds the tokens that wait for its admission: ● waits, ○ was denied.",
    media_type="application/yaml",
    source="Playbook as YAML or JSON",
    documents=(("Workload", "workload"), ("Context", "ctx"), ("Results", "results")),
    empty="There is no playbook yet. A playbook says in YAML which tasks run when.",
    example="""apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: greeting}
workflow:
- step: greet
  tool: {kind: noop}
  next:
    arcs:
    - step: thank
- step: thank
  tool: {kind: noop}""",
)

LANGUAGES: tuple[ProcessLanguage, ...] = (STEPS, FLOWS, PLAYBOOKS)
"""Those of the service, in the order of its pages."""


def find_language(code: str) -> ProcessLanguage:
    """A language by its code. Raises ``InvalidField``."""
    found = next((each for each in LANGUAGES if each.code == code), None)
    if found is None:
        raise InvalidField("language", f"one of {', '.join(each.code for each in LANGUAGES)}")
    return found


def find_language_of(name: str) -> ProcessLanguage | None:
    """A language by its name in the operations API."""
    return next((each for each in LANGUAGES if each.name == name), None)


def list_statuses(languages: Iterable[ProcessLanguage]) -> tuple[str, ...]:
    """Those that instances of any of these can have."""
    return tuple(dict.fromkeys(status for language in languages for status in language.nouns.statuses))


def find_entity_id(instance: str) -> str | None:
    """The id of the entity that an instance is, which has the same 128 bits; None for what is no ULID."""
    text = instance.upper()
    if len(text) != ULID_CHARS or any(char not in CROCKFORD for char in text) or text[0] > "7":
        return None
    number = 0
    for char in text:
        number = number * len(CROCKFORD) + CROCKFORD.index(char)
    digits = f"{number:032x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
