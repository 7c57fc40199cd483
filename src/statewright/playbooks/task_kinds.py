"""Who does tasks, by their kinds (docs/reference/executions.md#task-kinds)."""

from collections.abc import Sequence
from typing import Final

from statewright.playbooks.definition import Task

SERVICE_KINDS: Final = frozenset(("http", "noop", "playbook", "wait"))
"""Kinds of tasks that the service runs itself. Of these a worker, too, runs ``http`` and ``noop`` within a pipeline of
its own.
"""
COMPUTE: Final = "compute"
"""The kind of tasks that say which calculation members do them; one without ``tags`` is as those of other kinds."""
PLAYBOOK: Final = "playbook"
"""The kind of tasks that are other playbooks."""
_WITHOUT_CREDENTIALS: Final = frozenset(("noop", PLAYBOOK, "wait"))


def list_worker_kinds(tasks: Sequence[Task]) -> tuple[str, ...]:
    """The kinds of a pipeline that the service does not run, each once. Empty: the service runs the pipeline itself."""
    return tuple(dict.fromkeys(task.kind for task in tasks if not is_run_here(task)))


def is_run_here(task: Task) -> bool:
    """Whether the service does a task, or has members do it, where all tasks of its pipeline are such."""
    return task.kind in SERVICE_KINDS or is_for_members(task)


def is_for_members(task: Task) -> bool:
    """Whether a task says which calculation members do it."""
    return task.kind == COMPUTE and "tags" in task.source


def needs_credentials(tasks: Sequence[Task]) -> bool:
    """Whether the service runs a pipeline itself, with tasks whose fields may name the keychain."""
    return not list_worker_kinds(tasks) and any(task.kind not in _WITHOUT_CREDENTIALS for task in tasks)
