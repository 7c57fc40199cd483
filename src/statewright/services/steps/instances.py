"""Instances: start, read, list, history, cancel, retry, signal, draw (spec/step-engine.md §11.3–11.5, §11.7, §14.3)."""

from msgspec import Struct

from statewright.failures import NotImplementedHere
from statewright.jsonval.values import JsonObject
from statewright.services.runtime import Caller, Runtime
from statewright.steps.core import Execution, Instance


class Start(Struct, frozen=True, kw_only=True):
    """What to start. ``definition_version`` of 0 or less is the latest; an empty ``business_key`` is none."""

    definition_id: str
    definition_version: int = 0
    variables: JsonObject = {}
    business_key: str = ""


class Instances(Struct, frozen=True, kw_only=True):
    """A page of instances, the newest first. ``total`` counts all that match."""

    items: tuple[Instance, ...]
    page: int
    page_size: int
    total: int


async def start(runtime: Runtime, caller: Caller, request: Start) -> Instance:
    """Start an instance; it is durable, and as it stands after all the steps that need nobody.

    Render it with ``steps.core.instance_record``. Raises ``StepBadRequest`` without a definition id or for variables
    that cannot be stored, ``StepNotFound`` for an unknown definition, ``BusinessKeyInUse``.
    """
    raise NotImplementedHere("steps")


async def instance(runtime: Runtime, caller: Caller, instance_id: str) -> Instance:
    """An instance as it is now. Raises ``StepNotFound`` (``instance "X" not found``)."""
    raise NotImplementedHere("steps")


async def listing(
    runtime: Runtime,
    caller: Caller,
    *,
    definition_id: str = "",
    status: str = "",
    business_key: str = "",
    page: int = 0,
    page_size: int = 0,
) -> Instances:
    """Instances that match all filters exactly; an empty filter matches all, an unknown status nothing.

    Pages are as in ``definitions.listing``.
    """
    raise NotImplementedHere("steps")


async def history(runtime: Runtime, caller: Caller, instance_id: str) -> tuple[Execution, ...]:
    """One line per entry into a step, by start time, then id. Render each with ``steps.core.history_item``.

    Raises ``StepNotFound``.
    """
    raise NotImplementedHere("steps")


async def cancel(runtime: Runtime, caller: Caller, instance_id: str, reason: str = "") -> Instance:
    """Stop an instance and all it has going on. Raises ``StepNotFound``, ``StepConflict`` for a terminal one."""
    raise NotImplementedHere("steps")


async def retry(
    runtime: Runtime, caller: Caller, instance_id: str, step_id: str, variables: "JsonObject | None" = None
) -> Instance:
    """Have the step that failed an instance run again, after a shallow merge of ``variables`` (§14.3).

    Raises ``StepNotFound`` (``workflow instance not found``, or the step is not in the definition), ``StepConflict``,
    ``BusinessKeyInUse``.
    """
    raise NotImplementedHere("steps")


async def signal(
    runtime: Runtime, caller: Caller, instance_id: str, step_id: str, variables: "JsonObject | None" = None
) -> None:
    """Resume a WAIT step with a shallow merge of ``variables``. Raises the failures of the table in §11.7."""
    raise NotImplementedHere("steps")


async def diagram(runtime: Runtime, caller: Caller, instance_id: str) -> str:
    """The instance on its definition in Mermaid's flowchart notation. Raises ``StepNotFound``."""
    raise NotImplementedHere("steps")
