"""What commands show, and those that are made of the table of operations (docs/reference/cli.md)."""

from typing import Any, get_args, get_type_hints

import msgspec
import pytest

from statewright.cli.client import print_answer, show_table
from statewright.cli.entities import AUDIT_COLUMNS
from statewright.jsonval.values import JsonObject
from statewright.operations.records import Command
from statewright.operations.table import OPERATIONS, ApiOperation
from statewright.sdk.operations.audit import AuditEvent
from statewright.sdk.operations.models import Model

COMMANDS = [(one, one.command) for one in OPERATIONS if one.command is not None]
IDS = [one.id for one, _ in COMMANDS]


def list_members(operation: ApiOperation[Any], command: Command) -> set[str]:
    """The members of what a command shows a row for, as they are sent."""
    answer: Any = operation.answer
    [record, *_] = get_args(answer) or get_args(get_type_hints(answer)[command.member or "items"])
    return {field.encode_name for field in msgspec.structs.fields(record)}


@pytest.mark.parametrize(("operation", "command"), COMMANDS, ids=IDS)
def test_options_give_parameters_of_their_operation(operation: ApiOperation[Any], command: Command) -> None:
    assert {option.gives or option.name for option in command.options} <= {query.name for query in operation.query}


@pytest.mark.parametrize(("operation", "command"), [one for one in COMMANDS if one[1].columns])
def test_columns_show_members_of_the_answer(operation: ApiOperation[Any], command: Command) -> None:
    columns = [column.rpartition(": ")[2] for column in command.columns.split(" | ")]
    shown = {part.split(".")[0] for column in columns for part in column.split("/")}
    assert shown <= list_members(operation, command)


def test_a_table_shows_members_by_name_and_says_so_in_its_head(capsys: pytest.CaptureFixture[str]) -> None:
    records = [
        {"entityId": "e-1", "startedAt": "now", "by": {"id": "ann"}, "model": {"name": "prize", "version": 1}},
        {"entityId": "e-2", "leaseUntil": None, "details": {"a": 1, "b": "x"}, "roles": ["R1", "R2"]},
    ]
    show_table("entityId | startedAt | leaseUntil | who: by.id | model | details | roles")(records)
    head, first, second = (line.split() for line in capsys.readouterr().out.splitlines())
    assert head == ["entity", "started", "lease", "until", "who", "model", "details", "roles"]
    assert first == ["e-1", "now", "ann", "prize/1"]
    assert second == ["e-2", "a", "1,", "b", "x", "R1", "R2"]


def test_a_table_shows_structs_and_what_a_member_holds(capsys: pytest.CaptureFixture[str]) -> None:
    show_table("model: name/version | state", "models")(
        {"models": [Model(id="1", name="m", version=2, state="LOCKED")]}
    )
    assert capsys.readouterr().out.split() == ["model", "state", "m/2", "LOCKED"]


@pytest.mark.parametrize(("answer", "told"), [(None, ""), ("done", "done\n"), ({"a": 1}, '{\n  "a": 1\n}\n')])
def test_an_answer_is_a_text_a_document_or_nothing(answer: Any, told: str, capsys: pytest.CaptureFixture[str]) -> None:
    print_answer(answer)
    assert capsys.readouterr().out == told


def test_the_trail_says_why_a_processor_failed_that_undid_only_itself(capsys: pytest.CaptureFixture[str]) -> None:
    failed: JsonObject = {"success": False, "reason": "processor mail failed: down"}
    event = AuditEvent(
        kind="StateMachine",
        type="STATE_PROCESS_RESULT",
        time="2026-03-04T09:00:01Z",
        transaction_id="",
        state="A",
        text='Processor "mail" completed',
        data=failed,
        details={},
    )
    show_table(AUDIT_COLUMNS)([event])
    assert "processor mail failed: down" in " ".join(capsys.readouterr().out.split())
