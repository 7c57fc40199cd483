"""The settings that a node runs with (docs/reference/operations.md#settings)."""

from collections.abc import Iterator

from msgspec import Struct

from statewright.services.runtime import Runtime
from statewright.settings import SETTINGS, Settings
from statewright.settings.kinds import MASK


class EffectiveSettings(Struct, frozen=True):
    """The settings of this process."""

    settings: Settings


class EffectiveSetting(Struct, frozen=True, kw_only=True):
    """A setting as it is in force: ``value`` as it would be written, a mask for a secret, None where there is none.

    ``variable`` is the one that it came from; None: it has its default.
    """

    name: str
    section: str
    value: str | None
    variable: str | None
    meaning: str


def list_settings(runtime: Runtime) -> Iterator[EffectiveSetting]:
    """All settings of the node that is asked, in the order of their page. Secrets are never told."""
    settings = runtime.extensions.get(EffectiveSettings).settings
    for name, setting in SETTINGS.items():
        value = getattr(settings, name)
        shown = None if value in (None, "", ()) else MASK if setting.reader.is_secret else setting.reader.show(value)
        yield EffectiveSetting(
            name=f"STATEWRIGHT_{name.upper()}",
            section=setting.section,
            value=shown,
            variable=settings.sources.get(name),
            meaning=setting.meaning,
        )
