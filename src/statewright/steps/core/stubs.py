"""Stubs of a dry run as a document, and its outcome as one.

``{"jobs": {"credit-score": {"variables": {"creditScore": 720}}}, "userTasks": {…}, "signals": {…}}``: by job type and
by step id, one reply or a list of them, one per delivery. A reply has ``variables``, or for a worker ``error`` and
maybe ``retryable``; ``after`` is how long it takes, an ISO-8601 duration.
"""

from collections.abc import Mapping
from typing import Final

from statewright.jsonval.values import JsonObject, JsonValue
from statewright.net import parse_delay
from statewright.steps.core.history import history_item
from statewright.steps.core.instance import instance_record
from statewright.steps.core.members import Members, UnreadableDefinition, spellings
from statewright.steps.core.simulation import AT_ONCE, Answer, Failure, Played, Replies, Reply, Simulation, Stubs
from statewright.steps.core.texts import quoted
from statewright.steps.core.times import instant_text

_STUBS: Final = spellings("jobs", "userTasks", "signals")
_REPLY: Final = spellings("variables", "error", "retryable", "after")


def read_stubs(value: JsonValue) -> Stubs:
    """The stubs in a document. Raises ValueError, which says where it is wrong."""
    try:
        members = Members({} if value is None else value, _STUBS, "")
        return Stubs(
            jobs=_replies(members, "jobs"),
            user_tasks=_replies(members, "userTasks"),
            signals=_replies(members, "signals"),
        )
    except UnreadableDefinition as defect:
        raise ValueError(str(defect).removeprefix("json: ")) from None


def simulation_report(simulation: Simulation) -> JsonObject:
    """The outcome: every instance of the chain with its history."""
    return {
        "stopped": simulation.stopped,
        "clock": instant_text(simulation.clock),
        "instances": [_played(played) for played in simulation.played],
    }


def _played(played: Played) -> JsonObject:
    return {
        **instance_record(played.instance),
        "endedAtStep": played.ended_at_step,
        "history": [history_item(line) for line in played.history],
    }


def _replies(members: Members, group: str) -> Mapping[str, Replies]:
    return {
        name: _reply_list(value, f"{members.at(group)}.{name}", group) for name, value in members.object(group).items()
    }


def _reply_list(value: JsonValue, path: str, group: str) -> Replies:
    listed = value if isinstance(value, list) else [value]
    return tuple(_reply(item, f"{path}[{index}]", group) for index, item in enumerate(listed))


def _reply(value: JsonValue, path: str, group: str) -> Reply:
    members = Members({} if value is None else value, _REPLY, path)
    after = members.text("after")
    delay = parse_delay(after) if after else AT_ONCE
    if delay is None:
        raise UnreadableDefinition(f"invalid ISO-8601 duration {quoted(after)} at {members.at('after')}")
    if members.get("error") is None:
        return Answer(variables=members.object("variables"), delay=delay)
    if group != "jobs":
        raise UnreadableDefinition(f"only jobs can fail, not {path}")
    return Failure(message=members.text("error"), retryable=members.flag("retryable"), delay=delay)
