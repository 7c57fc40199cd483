"""What a service has for the pipelines that it runs itself (docs/reference/executions.md#task-kinds)."""

from msgspec import Struct

from statewright.playbooks.http_tasks import HTTP
from statewright.services.playbooks.keychain import Keychain


class PipelineResources(Struct, frozen=True, kw_only=True):
    """Find it by ``runtime.extensions.get(PipelineResources)``."""

    keychain: Keychain
    sends_requests: bool
    """Whether the service does ``http`` tasks."""

    @property
    def disabled_kinds(self) -> frozenset[str]:
        """Kinds of tasks that the service knows and does not do here."""
        return frozenset() if self.sends_requests else frozenset((HTTP,))
