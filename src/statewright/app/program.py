"""Which release this is."""

from importlib import metadata


def get_program_version() -> str:
    """The release, as it is installed."""
    try:
        return metadata.version("statewright")
    except metadata.PackageNotFoundError:
        return "unknown"
