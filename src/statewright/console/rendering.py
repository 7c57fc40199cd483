"""Templates to HTML. Everything is escaped; there is no way around it in a template (tests/unit/console)."""

from collections.abc import Callable
from secrets import token_hex
from typing import Final

from jinja2 import Environment, PackageLoader, StrictUndefined

from statewright.console.static_files import get_static_path
from statewright.console.views import text


class Renderer:
    """Compiled templates. ``read_clock`` gives microseconds since 1970."""

    def __init__(self, read_clock: Callable[[], int]) -> None:
        self._environment = Environment(
            loader=PackageLoader("statewright.console"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
        )
        self._environment.globals |= {"static": get_static_path, "idempotency_key": lambda: token_hex(16)}
        self._environment.filters |= _FILTERS | {"moment": lambda value: text.build_moment(value, read_clock())}

    def render(self, template: str, **values: object) -> str:
        """One template with its values."""
        return self._environment.get_template(template).render(values)


_FILTERS: Final = {
    "pieces": text.split_invisible,
    "cut": text.cut_text,
    "short_id": text.shorten_id,
    "count": text.format_count,
    "exact": text.format_exact,
    "size": text.format_bytes,
    "duration": text.format_duration,
    "segment": text.encode_segment,
}
