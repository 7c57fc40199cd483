"""Steps that are other playbooks (docs/reference/executions.md#task-kinds)."""

from statewright.jsonval.values import JsonObject, JsonValue
from statewright.net.effects import Effect, StartChild
from statewright.playbooks.context import WORKLOAD
from statewright.playbooks.language import CHILD


def direct_children(effects: tuple[Effect, ...]) -> tuple[Effect, ...]:
    """The effects, with executions of the playbooks that the steps name."""
    if not any(isinstance(effect, StartChild) for effect in effects):
        return effects
    return tuple(_direct_child(effect) if isinstance(effect, StartChild) else effect for effect in effects)


def _direct_child(effect: StartChild) -> StartChild:
    given = effect.input if isinstance(effect.input, dict) else {}
    fields = _get_object(given.get(CHILD))
    path, version = fields.get("path"), fields.get("version")
    workload = _get_object(fields.get("args", fields.get("input")))
    start: JsonObject = {WORKLOAD: workload, "depth": given.get("depth")}
    return StartChild(
        net=path if isinstance(path, str) else "",
        version=version if isinstance(version, int) and not isinstance(version, bool) else 0,
        input=start,
        awaited_by=effect.awaited_by,
    )


def _get_object(value: JsonValue) -> JsonObject:
    return value if isinstance(value, dict) else {}
