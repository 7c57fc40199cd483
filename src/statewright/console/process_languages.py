"""The process languages, and where the API and the console have each of them (docs/console.md#pages)."""

from typing import Final

from msgspec import Struct

from statewright.console.calls import ApiCall, Method, Parameters, build_root_call
from statewright.console.diagrams.process import LanguageName
from statewright.console.request import InvalidField
from statewright.console.views.page import encode_segment
from statewright.jsonval.values import JsonObject

CROCKFORD: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
ULID_CHARS: Final = 26
MODELS: Final = frozenset(
    {
        *("StepWorkflowDefinition", "StepWorkflowInstance", "StepUserTask"),
        *("FlowDefinition", "FlowInstance", "PlaybookDefinition", "PlaybookExecution"),
    }
)
"""The models in which the service keeps processes: each tenant has them (docs/process-languages.md)."""


class ProcessLanguage(Struct, frozen=True, kw_only=True):
    """A language. ``code`` is that of addresses, ``name`` that of the operations API."""

    code: str
    name: LanguageName
    title: str
    """Of its list of definitions."""
    parameter: str
    """The name of the id in the paths of its pages."""
    page: str
    """The segment of its pages."""
    definitions: tuple[str, ...]
    instances: tuple[str, ...]
    instance_member: str
    """Of an instance: which definition it is of."""
    version_member: str
    status_filter: str
    input_member: str
    """What an instance is started with."""
    statuses: tuple[str, ...]

    def build_path(self, *segments: str | int) -> str:
        """The path of a page of its definitions."""
        return "".join(["/console/", self.page, *(f"/{encode_segment(str(each))}" for each in segments)])

    def call_definitions(
        self, *segments: str | int, method: Method = "GET", query: Parameters | None = None, body: bytes | None = None
    ) -> ApiCall:
        """A call about its definitions."""
        return build_root_call(*self.definitions, *segments, method=method, query=query, body=body)

    def call_instances(
        self, *segments: str | int, method: Method = "GET", query: Parameters | None = None, body: bytes | None = None
    ) -> ApiCall:
        """A call about its instances."""
        return build_root_call(*self.instances, *segments, method=method, query=query, body=body)

    def start(self, definition: str, version: int, values: JsonObject, business_key: str) -> JsonObject:
        """The body that starts an instance; version 0 is the latest."""
        body: JsonObject = {self.instance_member: definition, self.input_member: values}
        if version:
            body[self.version_member] = version
        return body | ({"businessKey": business_key} if business_key else {})


STEPS: Final = ProcessLanguage(
    code="steps",
    name="steps",
    title="Step definitions",
    parameter="definition",
    page="definitions",
    definitions=("v1", "definitions"),
    instances=("v1", "instances"),
    instance_member="definitionId",
    version_member="definitionVersion",
    status_filter="status",
    input_member="variables",
    statuses=("ACTIVE", "WAITING", "COMPLETED", "FAILED", "CANCELLED"),
)
FLOWS: Final = ProcessLanguage(
    code="flow",
    name="flows",
    title="Flows",
    parameter="flow",
    page="flows",
    definitions=("v1", "flows", "definitions"),
    instances=("v1", "flows", "instances"),
    instance_member="definitionId",
    version_member="definitionVersion",
    status_filter="status",
    input_member="input",
    statuses=("RUNNING", "COMPLETED", "FAILED", "TERMINATING", "TERMINATED", "CANCELLED"),
)
PLAYBOOKS: Final = ProcessLanguage(
    code="playbook",
    name="playbooks",
    title="Playbooks",
    parameter="playbook",
    page="playbooks",
    definitions=("v1", "playbooks"),
    instances=("v1", "executions"),
    instance_member="path",
    version_member="version",
    status_filter="state",
    input_member="workload",
    statuses=("RUNNING", "WAITING", "COMPLETED", "FAILED", "CANCELLED"),
)

LANGUAGES: Final = (STEPS, FLOWS, PLAYBOOKS)


def find_language(code: str) -> ProcessLanguage:
    """A language by its code. Raises ``InvalidField``."""
    found = next((each for each in LANGUAGES if each.code == code), None)
    if found is None:
        raise InvalidField("language", f"one of {', '.join(each.code for each in LANGUAGES)}")
    return found


def find_language_of(name: str) -> ProcessLanguage | None:
    """A language by its name in the operations API."""
    return next((each for each in LANGUAGES if each.name == name), None)


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
