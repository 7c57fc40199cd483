"""The help endpoints (docs/reference/service.md#help), which need no credentials."""

from statewright.api.http.help.endpoint import Help

__all__ = ["Help"]
