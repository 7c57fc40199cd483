"""Credentials of playbooks: files in a directory of the operator's choice (docs/reference/executions.md#keychain).

A credential of a playbook is a file of its tenant, ``<directory>/<tenant>/<name>``, as mounted secrets are. It holds a
JSON object, or a text. What is in it goes into rendered fields of tasks and nowhere else.
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from statewright.ids import TenantId
from statewright.jsonval.codec import MalformedJson, decode
from statewright.jsonval.values import JsonObject
from statewright.playbooks.definition import Credential

MAX_BYTES: Final = 64 * 1024
FILE_MEMBER: Final = "secret"
"""The member of a credential that names its file; its own name where there is none."""


class Keychain:
    """Reads credentials. ``directory`` is ``None`` where there are none."""

    def __init__(self, directory: Path | None) -> None:
        self._directory = directory

    async def resolve(self, tenant: TenantId, credentials: Sequence[Credential]) -> "JsonObject | str":
        """The credentials by name; a text says which one cannot be had, and nothing of any."""
        return await asyncio.to_thread(self._resolve, tenant, credentials)

    def _resolve(self, tenant: TenantId, credentials: Sequence[Credential]) -> "JsonObject | str":
        found: JsonObject = {}
        for credential in credentials:
            named = credential.fields.get(FILE_MEMBER, credential.name)
            value = self._read(tenant, named) if isinstance(named, str) else None
            if value is None:
                return f"the credential {credential.name} is not there"
            found[credential.name] = value
        return found

    def _read(self, tenant: TenantId, name: str) -> "JsonObject | str | None":
        if self._directory is None or not _is_file_name(name) or not _is_file_name(tenant):
            return None
        try:
            with (self._directory / tenant / name).open("rb") as file:
                content = file.read(MAX_BYTES + 1)
        except OSError:
            return None
        if len(content) > MAX_BYTES:
            return None
        try:
            value = decode(content)
        except MalformedJson:
            value = None
        if isinstance(value, dict):
            return value
        try:
            return content.decode().strip()
        except UnicodeDecodeError:
            return None


def _is_file_name(name: str) -> bool:
    """Whether it can be no path that leads elsewhere."""
    return bool(name) and name not in (".", "..") and not any(sign in name for sign in "/\\\0")
