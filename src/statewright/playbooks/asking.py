"""User tasks of playbooks: steps whose only task is of the kind ``ask`` (docs/reference/playbooks.md#user-tasks).

To the kernel such a task is one as all others. What it has done by workers is opened for people here.
"""

from statewright.jsonval.values import JsonObject
from statewright.net import KernelResult, Marking, Moment, advance
from statewright.net.effects import CloseTask, Effect, EnqueueTask, OpenHumanTask, TaskFailed
from statewright.playbooks.definition import Playbook
from statewright.playbooks.dispatch import build_dispatch
from statewright.playbooks.graph import fail_task
from statewright.playbooks.pipeline import ToolCall, prepare_first
from statewright.playbooks.source import PlaybookProcess
from statewright.playbooks.templates import EvaluationContext
from statewright.processes.user_tasks import ASK, TaskAnswer, ask_question, close_question, read_question


def ask_people(
    process: PlaybookProcess, before: Marking, result: KernelResult, moment: Moment, answer: TaskAnswer | None = None
) -> KernelResult:
    """What an event comes to, with user tasks in place of the jobs of steps that ask people. A task whose question
    cannot be filled in fails.
    """
    asked = {token.work for token in before.tokens if token.node in process.asking}
    net, language = process.compiled.net, process.create_language(moment.at)
    marking, next_id, pending, effects = result.marking, result.next_id, list(result.effects), list[Effect]()
    for effect in pending:  # it grows meanwhile
        if isinstance(effect, EnqueueTask) and effect.node in process.asking:
            opened = _open_task(process.playbook, marking.data, effect, moment.at)
            if isinstance(opened, OpenHumanTask):
                asked.add(effect.task)
                effects.append(opened)
                continue
            effects.append(effect)
            failed = advance(net, language, marking, opened, Moment(at=moment.at, first_id=next_id))
            marking, next_id = failed.marking, failed.next_id
            pending.extend(failed.effects)
        elif isinstance(effect, CloseTask) and effect.task in asked:
            effects.append(close_question(effect, answer))
        else:
            effects.append(effect)
    return KernelResult(marking, tuple(effects), next_id)


def _open_task(playbook: Playbook, data: JsonObject, effect: EnqueueTask, at: int) -> OpenHumanTask | TaskFailed:
    fields = _fill_fields(playbook, data, effect, at)
    if isinstance(fields, TaskFailed):
        return fields
    try:
        return ask_question(effect, read_question(fields))
    except ValueError as defect:
        return fail_task(effect.task, {"kind": ASK, "message": str(defect)})


def _fill_fields(playbook: Playbook, data: JsonObject, effect: EnqueueTask, at: int) -> "JsonObject | TaskFailed":
    """The fields of the task as a pipeline would render them that begins now."""
    given = effect.input if isinstance(effect.input, dict) else {}
    dispatch = build_dispatch(
        playbook,
        playbook.by_name[effect.node],
        data,
        given,
        run=effect.execution,
        element=effect.element,
        context=EvaluationContext(at=at),
    )
    prepared = prepare_first(dispatch)
    return prepared.fields if isinstance(prepared, ToolCall) else fail_task(effect.task, prepared.error or {})
