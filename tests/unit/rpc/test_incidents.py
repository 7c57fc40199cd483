"""One line for many of a kind."""

import pytest

from statewright.rpc import listener as module
from statewright.rpc.listener import Incidents


def lines(captured: pytest.CaptureFixture[str]) -> list[str]:
    return [line for line in captured.readouterr().out.splitlines() if "level=" in line]


def test_the_first_of_a_kind_is_a_line_and_the_next_ones_are_counted(capsys: pytest.CaptureFixture[str]):
    incidents = Incidents()
    for peer in range(1405):
        incidents.report("grpc_connection_refused", peer=peer)
    (line,) = lines(capsys)
    assert "level=INFO" in line
    assert "peer=0" in line
    assert incidents.counts == {"grpc_connection_refused": 1405}


def test_every_kind_and_every_cause_has_its_line(capsys: pytest.CaptureFixture[str]):
    incidents = Incidents()
    for event, cause in (("a", ""), ("b", ""), ("b", "other"), ("b", "other")):
        incidents.report(event, cause=cause)
    assert len(lines(capsys)) == 3


def test_after_a_while_a_line_says_how_many_had_none(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    now = [100.0]
    monkeypatch.setattr(module, "monotonic", lambda: now[0])
    incidents = Incidents()
    for _ in range(5):
        incidents.report("torn")
    now[0] += module.QUIET_S
    incidents.report("torn")
    assert [("unlogged=4" in line) for line in lines(capsys)] == [False, True]
    incidents.report("torn")
    now[0] += module.QUIET_S
    incidents.report_unlogged()
    incidents.report_unlogged()
    (line,) = lines(capsys)
    assert "unlogged=1" in line


def test_causes_that_clients_make_up_take_no_memory_without_end():
    incidents = Incidents()
    for cause in range(10 * module.MAX_CAUSES):
        incidents.report("refused", cause=str(cause))
    assert len(incidents._quiet) <= module.MAX_CAUSES
