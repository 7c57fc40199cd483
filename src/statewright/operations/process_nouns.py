"""What the things of process languages are called, by which the API, its document and the console know them alike."""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct


class Nouns(Struct, frozen=True, kw_only=True):
    """What things are called, in paths, members, names of operations and sentences."""

    language: str
    title: str
    """Begins the names of schemas and tags."""
    definition: str
    instance: str = "instance"
    entry: str = "Every entry into a node with its input and output"
    """A line of the history."""
    nodes: str = "nodes"
    diagram: str = "flowchart"
    """What kind of diagram Mermaid draws."""
    drawn_instance: str = "How far an instance is"
    """What the diagram of an instance shows."""
    id_member: str = "id"
    definition_member: str = "definitionId"
    version_member: str = "definitionVersion"
    status_member: str = "status"
    input_member: str = "input"
    """What an instance is started with."""
    statuses: tuple[str, ...]
    """Of instances, in the order in which pages offer them."""
    definitions_path: str
    instances_path: str
    validate_path: str = ""
    """Empty: definitions are checked by storing them alone."""
    names: Mapping[str, str] = {}
    """Of operations, by role, where they are not made of the title."""
    schemas: Mapping[str, str] = {}
    """The same of schemas."""
    summaries: Mapping[str, str] = {}
    """The same of sentences."""

    @property
    def definitions(self) -> str:
        """Several of them."""
        return f"{self.definition}s"

    @property
    def instances(self) -> str:
        """Several of them."""
        return f"{self.instance}s"

    @property
    def subject(self) -> str:
        """Of what names of operations say that something is done to it."""
        return self.title if self.instance == "instance" else self.instance.capitalize()


STEP_NOUNS: Final = Nouns(
    language="steps",
    title="Step",
    definition="definition",
    nodes="steps",
    drawn_instance="The instance on its definition as a Mermaid flowchart: done, active, failed",
    entry="Every entry into a step",
    input_member="variables",
    statuses=("ACTIVE", "WAITING", "COMPLETED", "FAILED", "CANCELLED"),
    definitions_path="/v1/definitions",
    instances_path="/v1/instances",
    names={
        "upload": "uploadDefinition",
        "definitions": "listDefinitions",
        "definition": "getDefinition",
        "version": "getDefinitionVersion",
        "draw": "drawDefinition",
        "draw_version": "drawDefinitionVersion",
        "start": "startInstance",
        "instances": "listInstances",
        "instance": "getInstance",
        "history": "getInstanceHistory",
        "draw_instance": "drawInstance",
    },
    schemas={"source": "StepDefinition", "diagram": "Mermaid"},
)
FLOW_NOUNS: Final = Nouns(
    language="flows",
    title="Flow",
    definition="flow",
    diagram="state diagram",
    drawn_instance="The flow of an instance as a Mermaid state diagram: completed, running, failed, skipped",
    statuses=("RUNNING", "COMPLETED", "FAILED", "CANCELLED", "TERMINATING", "TERMINATED"),
    definitions_path="/v1/flows/definitions",
    instances_path="/v1/flows/instances",
    validate_path="/v1/flows/validate",
    names={"start": "startFlow", "history": "getFlowHistory"},
    summaries={"validate": "Compile a flow, and store nothing"},
)
PLAYBOOK_NOUNS: Final = Nouns(
    language="playbooks",
    title="Playbook",
    definition="playbook",
    instance="execution",
    entry="Every run of a step with its input and output",
    nodes="steps",
    drawn_instance="The playbook of an execution as a Mermaid flowchart: completed, running, pending, failed",
    id_member="path",
    definition_member="path",
    version_member="version",
    status_member="state",
    input_member="workload",
    statuses=("RUNNING", "WAITING", "COMPLETED", "FAILED", "CANCELLED"),
    definitions_path="/v1/playbooks",
    instances_path="/v1/executions",
    validate_path="/v1/playbooks/validate",
    names={
        "start": "startExecution",
        "instance": "getExecution",
        "instances": "listExecutions",
        "history": "getExecutionHistory",
        "draw_instance": "drawExecution",
    },
    schemas={
        "source": "Playbook",
        "start": "ExecutionStart",
        "instance": "PlaybookExecution",
        "instances": "PlaybookExecutions",
    },
    summaries={
        "upload": "Store a playbook as the next version of its path; the same content again is the same version",
        "definition": "The latest version of a playbook; `/` in its path is written `%2F`",
    },
)
