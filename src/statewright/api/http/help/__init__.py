"""The help endpoints (docs/reference/service.md#help), which need no credentials."""

from statewright.api.http.help.topics import Help, build_openapi_slice

__all__ = ["Help", "build_openapi_slice"]
