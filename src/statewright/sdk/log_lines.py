"""How a node logs where its program has not set up logging: lines of text, or of JSON (docs/sdk.md#logs).

The SDK logs through Python's ``logging``, an event and its keys in one message: ``node_joined member=%s``. As JSON they
become members, so that the lines of nodes can be searched like those of the service.
"""

import json
import logging
import re
import time
from collections.abc import Mapping
from typing import Final

VARIABLE: Final = "STATEWRIGHT_LOG_FORMAT"

_TEXT: Final = "%(asctime)s %(levelname)s %(message)s"
_EVENT: Final = re.compile(r"(?P<event>[a-z][a-z0-9_]*)(?P<keys>(?: [a-z_]+=%[sdr])*)")
_KEY: Final = re.compile(r"([a-z_]+)=%")
_LEVELS: Final = {"WARNING": "WARN", "CRITICAL": "ERROR"}
"""As the service calls them."""


def configure_logging(environment: Mapping[str, str]) -> None:
    """Log to standard error unless the program has set up something else."""
    if logging.getLogger().handlers:
        return
    handler = logging.StreamHandler()
    is_json = environment.get(VARIABLE, "").strip() == "json"
    handler.setFormatter(JsonFormatter() if is_json else logging.Formatter(_TEXT))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    logging.getLogger("httpx").setLevel(logging.WARNING)  # or it would log every request


class JsonFormatter(logging.Formatter):
    """A record as one line of JSON: ``time``, ``level``, ``msg``, ``pkg``, then the keys of the event."""

    def format(self, record: logging.LogRecord) -> str:
        event, keys = _split_event(record)
        seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line: dict[str, object] = {
            "time": f"{seconds}.{int(record.msecs):03}Z",
            "level": _LEVELS.get(record.levelname, record.levelname),
            "msg": event,
            "pkg": record.name.removeprefix("statewright."),
            **keys,
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def _split_event(record: logging.LogRecord) -> tuple[str, dict[str, object]]:
    """The event and its keys; a message of another form is all there is."""
    found = _EVENT.fullmatch(str(record.msg))
    names = _KEY.findall(found["keys"]) if found else []
    if found is None or not isinstance(record.args, tuple) or len(names) != len(record.args):
        return record.getMessage(), {}
    return found["event"], dict(zip(names, record.args, strict=True))
