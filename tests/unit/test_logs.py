"""Log lines: their form, and what cannot be done to them (docs/reference/service.md#logs)."""

import contextvars
import io
import json
import logging
import re
import shlex

import pytest
import structlog
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from statewright.settings import Secret
from statewright.telemetry import logs
from statewright.telemetry.logs import LogFormat

LOG = logs.logger("statewright.tests")


def written(level: str = "debug", form: LogFormat = "text") -> io.BytesIO:
    """Where the log goes from now on."""
    stream = io.BytesIO()
    logs.configure("debug", form, stream)
    logs.set_level(level)
    return stream


def lines(stream: io.BytesIO) -> list[str]:
    return stream.getvalue().decode().splitlines()


def test_a_line_has_time_level_name_package_and_keys_in_this_order():
    stream = written()
    LOG.info("member_joined", member="m-1", calls=3, ok=True, cause=None)
    (line,) = lines(stream)
    assert re.fullmatch(
        r"time=\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z level=INFO msg=member_joined pkg=tests "
        r"member=m-1 calls=3 ok=true cause=null",
        line,
    )


def test_the_same_event_as_json():
    stream = written(form="json")
    LOG.warning("member_lost", member="m-1", calls=3, ok=False)
    (line,) = lines(stream)
    assert json.loads(line) | {"time": ""} == {
        "time": "", "level": "WARN", "msg": "member_lost", "pkg": "tests", "member": "m-1", "calls": 3, "ok": False,
    }  # fmt: skip


@pytest.mark.parametrize("form", ["text", "json"])
def test_long_texts_are_cut_and_say_how_long_they_were(form: LogFormat):
    stream = written(form=form)
    LOG.info("request_refused", message="x" * 5_000_000, path="/v1/definitions")
    (line,) = lines(stream)
    assert len(line) < 4_500
    assert "5,000,000 characters" in line
    assert "/v1/definitions" in line


@hypothesis_settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text())
def test_no_text_ends_its_line_or_forges_a_key(text: str):
    stream = written()
    LOG.info("event", text=text, after="end")
    (line,) = stream.getvalue().decode().removesuffix("\n").split("\n")
    assert line.isprintable()
    parts = shlex.split(line)
    assert [part.partition("=")[0] for part in parts] == ["time", "level", "msg", "pkg", "text", "after"]


@hypothesis_settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_json_gives_every_text_back(text: str):
    stream = written(form="json")
    LOG.info("event", text=text)
    (line,) = stream.getvalue().decode("ascii").removesuffix("\n").split("\n")
    assert json.loads(line)["text"] == text


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("a b", '"a b"'),
        ("", '""'),
        ("a=b", '"a=b"'),
        ('say "x"', '"say \\"x\\""'),
        ("Zürich", '"Zürich"'),
        ("/api/x?y", "/api/x?y"),
    ],
)
def test_how_values_are_shown(value: str, shown: str):
    stream = written()
    LOG.info("event", value=value)
    assert lines(stream)[0].endswith(f" value={shown}")


def test_a_key_cannot_hold_a_blank():
    stream = written()
    LOG.info("event", **{"a b=": 1})
    assert lines(stream)[0].endswith(" a_b_=1")


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_secret_is_masked(form: LogFormat):
    stream = written(form=form)
    LOG.info("event", bearer=Secret("hunter2"))
    assert "hunter2" not in lines(stream)[0]
    assert "********" in lines(stream)[0]


def test_what_is_bound_is_part_of_every_event_until_the_block_ends():
    stream = written()
    with logs.bind_keys(tenant="acme"):
        LOG.info("inside")
    LOG.info("outside")
    inside, outside = lines(stream)
    assert "tenant=acme" in inside
    assert "tenant" not in outside


@pytest.mark.parametrize(
    ("level", "seen"),
    [
        ("debug", ["DEBUG", "INFO", "WARN", "ERROR"]),
        ("info", ["INFO", "WARN", "ERROR"]),
        ("warn", ["WARN", "ERROR"]),
        ("error", ["ERROR"]),
    ],
)
def test_events_below_the_level_are_dropped(level: str, seen: list[str]):
    stream = written(level)
    for write in (LOG.debug, LOG.info, LOG.warning, LOG.error):
        write("event")
    assert [line.split()[1].removeprefix("level=") for line in lines(stream)] == seen


def test_the_level_changes_while_the_process_runs():
    stream = written("info")
    LOG.debug("before")
    assert logs.set_level("debug") == "info"
    LOG.debug("after")
    assert (len(lines(stream)), logs.get_level()) == (1, "debug")


@pytest.mark.parametrize(
    ("word", "level"), [("WARNING", "warn"), (" Error ", "error"), ("debug", "debug"), ("loud", "info"), ("", "info")]
)
def test_levels_as_the_admin_endpoint_takes_them(word: str, level: str):
    logs.set_level(word)
    assert logs.get_level() == level


def test_an_exception_is_told_on_one_line():
    stream = written()
    try:
        fails()
    except RuntimeError:
        LOG.exception("broken")
    (line,) = lines(stream)
    assert "RuntimeError: first\\nsecond" in line


def fails() -> None:
    raise RuntimeError("first\nsecond")


def test_the_plain_loggers_of_structlog_write_the_same_lines():
    proxied = structlog.get_logger("statewright.storage.pool")
    stream = written()
    proxied.warning("pool_exhausted", waiting=3)
    assert lines(stream)[0].endswith("level=WARN msg=pool_exhausted pkg=storage.pool waiting=3")


def test_a_second_configuration_reaches_loggers_that_were_used_before():
    written()
    LOG.info("event")
    stream = written(form="json")
    LOG.info("event")
    assert json.loads(lines(stream)[0])["msg"] == "event"


def test_records_of_libraries_come_out_the_same_way():
    stream = written()
    logging.getLogger("litestar").warning("bad %s", "request\nlevel=ERROR")
    assert lines(stream)[0].endswith('level=WARN msg=library_message pkg=litestar text="bad request\\nlevel=ERROR"')


def test_the_detail_of_libraries_is_not_wanted():
    stream = written("debug")
    logging.getLogger("asyncio").debug("Using selector")
    logging.getLogger("granian.access").info("GET / 200")
    assert lines(stream) == []


def test_libraries_keep_quiet_below_the_level():
    stream = written("error")
    logging.getLogger("grpc").warning("w")
    assert lines(stream) == []


def test_losing_the_reader_of_the_log_does_not_stop_anybody():
    class Broken(io.BytesIO):
        def write(self, _line: object) -> int:
            raise BrokenPipeError

    logs.configure("info", "text", Broken())
    LOG.info("event")
    assert logs.get_level() == "info"


def test_lines_of_a_request_name_it_until_it_ends():
    stream = written()

    def serve() -> None:
        mark = logs.RequestMark("r-1")
        logs.request_mark.set(mark)
        LOG.info("within")
        mark.id = None
        LOG.info("after")

    contextvars.Context().run(serve)
    LOG.info("elsewhere")
    within, after, elsewhere = lines(stream)
    assert within.endswith("msg=within pkg=tests request=r-1")
    assert "request=" not in after + elsewhere
