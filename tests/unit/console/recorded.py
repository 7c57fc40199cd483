"""Answers of the API as tests give them to views."""

from statewright.console.calls import Reply, build_ops_call
from statewright.jsonval.values import JsonValue


def a_reply(value: JsonValue, status: int = 200) -> Reply:
    """An answer to some call."""
    return Reply(call=build_ops_call(), status=status, value=value)


def a_problem(status: int, code: str, detail: str = "") -> Reply:
    """A call that failed."""
    return a_reply({"status": status, "detail": detail, "properties": {"errorCode": code}}, status)
