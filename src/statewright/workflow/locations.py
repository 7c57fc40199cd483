"""How messages about definitions name a place: ``workflow "W" state "S" transition "T"``."""

from statewright.workflow.definition import Processor, State, Transition, Workflow

_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def quoted(name: str) -> str:
    """``name`` in double quotes on one line; what does not print is escaped."""
    return f'"{"".join(map(_shown, name))}"'


def of_workflow(workflow: Workflow) -> str:
    """``workflow "W"``."""
    return f"workflow {quoted(workflow.name)}"


def of_state(workflow: Workflow, state: State) -> str:
    """``workflow "W" state "S"``."""
    return f"{of_workflow(workflow)} state {quoted(state.name)}"


def of_transition(workflow: Workflow, state: State, transition: Transition) -> str:
    """``workflow "W" state "S" transition "T"``."""
    return f"{of_state(workflow, state)} transition {quoted(transition.name)}"


def of_processor(workflow: Workflow, state: State, transition: Transition, processor: Processor) -> str:
    """``workflow "W" state "S" transition "T" processor "P"``."""
    return f"{of_transition(workflow, state, transition)} processor {quoted(processor.name)}"


def _shown(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    if character.isprintable():
        return character
    code = ord(character)
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
