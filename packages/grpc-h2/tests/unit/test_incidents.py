"""One line for many of a kind, and where lines go."""

import logging

import pytest

from grpc_h2 import incidents as module
from grpc_h2.incidents import Incidents, StandardLog


class KeptLog:
    """Keeps events with their levels."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str, dict[str, object]]] = []

    def debug(self, event: str, **keys: object) -> None:
        self.lines.append(("debug", event, keys))

    def info(self, event: str, **keys: object) -> None:
        self.lines.append(("info", event, keys))

    def warning(self, event: str, **keys: object) -> None:
        self.lines.append(("warning", event, keys))

    def exception(self, event: str, **keys: object) -> None:
        self.lines.append(("exception", event, keys))


@pytest.fixture
def log() -> KeptLog:
    return KeptLog()


def test_the_first_of_a_kind_is_a_line_and_the_next_ones_are_counted(log: KeptLog):
    incidents = Incidents(log)
    for peer in range(1405):
        incidents.report("grpc_connection_refused", peer=peer)
    assert log.lines == [("info", "grpc_connection_refused", {"peer": 0})]
    assert incidents.counts == {"grpc_connection_refused": 1405}


def test_every_kind_and_every_cause_has_its_line(log: KeptLog):
    incidents = Incidents(log)
    for event, cause in (("a", ""), ("b", ""), ("b", "other"), ("b", "other")):
        incidents.report(event, cause=cause)
    assert len(log.lines) == 3


def test_what_an_operator_should_know_is_a_warning(log: KeptLog):
    Incidents(log).report("refused", is_warning=True)
    assert log.lines == [("warning", "refused", {})]


def test_after_a_while_a_line_says_how_many_had_none(log: KeptLog, monkeypatch: pytest.MonkeyPatch):
    now = [100.0]
    monkeypatch.setattr(module, "monotonic", lambda: now[0])
    incidents = Incidents(log)
    for _ in range(5):
        incidents.report("torn")
    now[0] += module.QUIET_S
    incidents.report("torn")
    assert log.lines == [("info", "torn", {}), ("info", "torn", {"unlogged": 4})]
    incidents.report("torn")
    now[0] += module.QUIET_S
    incidents.report_unlogged()
    incidents.report_unlogged()
    assert log.lines[2:] == [("info", "torn", {"unlogged": 1})]


def test_causes_that_clients_make_up_take_no_memory_without_end(log: KeptLog):
    incidents = Incidents(log)
    for cause in range(10 * module.MAX_CAUSES):
        incidents.report("refused", cause=str(cause))
    assert len(incidents._quiet) <= module.MAX_CAUSES


def test_without_a_log_events_are_records_of_the_standard_library(caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.DEBUG, "grpc_h2"):
        Incidents().report("grpc_client_floods", peer="ipv4:10.0.0.1:5", reason="forged\nline")
        log = StandardLog()
        log.debug("grpc_window_closed", peer="p")
        log.warning("refused")
        try:
            fail()
        except RuntimeError:
            log.exception("grpc_method_failed", method="/a.B/c")
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("INFO", r"grpc_client_floods {'peer': 'ipv4:10.0.0.1:5', 'reason': 'forged\nline'}"),
        ("DEBUG", "grpc_window_closed {'peer': 'p'}"),
        ("WARNING", "refused {}"),
        ("ERROR", "grpc_method_failed {'method': '/a.B/c'}"),
    ]
    assert "of a servicer" in caplog.text


def fail() -> None:
    raise RuntimeError("of a servicer")
