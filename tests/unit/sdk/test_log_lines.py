"""What nodes log (docs/sdk.md#logs)."""

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from statewright.sdk.node import JsonFormatter, configure_logging


@pytest.fixture
def log() -> Iterator[logging.Logger]:
    log = logging.Logger("statewright.sdk")
    log.addHandler(logging.StreamHandler(io.StringIO()))
    log.handlers[0].setFormatter(JsonFormatter())
    yield log
    log.handlers.clear()


def read_line(log: logging.Logger) -> dict[str, Any]:
    handler = log.handlers[0]
    assert isinstance(handler, logging.StreamHandler)
    [line] = handler.stream.getvalue().splitlines()
    read: dict[str, Any] = json.loads(line)
    return read


def test_an_event_has_its_keys_as_members(log: logging.Logger):
    log.warning("node_disconnected status=%s retry_in=%s", "UNAVAILABLE", 1.5)
    line = read_line(log)
    assert line["time"].endswith("Z")
    assert {name: value for name, value in line.items() if name != "time"} == {
        "level": "WARN", "msg": "node_disconnected", "pkg": "sdk", "status": "UNAVAILABLE", "retry_in": 1.5,
    }  # fmt: skip


def test_what_authors_of_functions_log_is_the_message(log: logging.Logger):
    log.info("charged %s to %s", 5, "Ann")
    assert read_line(log)["msg"] == "charged 5 to Ann"


def test_a_traceback_stays_in_the_line(log: logging.Logger):
    try:
        _ = {}["sku"]
    except KeyError:
        log.exception("function_failed kind=%s name=%s entity=%s", "processor", "price", "e-1")
    line = read_line(log)
    assert (line["msg"], line["level"], line["name"]) == ("function_failed", "ERROR", "price")
    assert line["exception"].endswith("KeyError: 'sku'")


def test_nothing_is_set_up_where_the_program_has_done_so():
    before = list(logging.getLogger().handlers)
    assert before, "pytest has handlers"
    configure_logging({"STATEWRIGHT_LOG_FORMAT": "json"})
    assert logging.getLogger().handlers == before
