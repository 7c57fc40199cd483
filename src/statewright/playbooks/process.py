"""A version of a playbook, ready to run (docs/reference/executions.md#definitions)."""

from msgspec import Struct

from statewright.net import Language
from statewright.playbooks.compiling import CompiledPlaybook, compile_net
from statewright.playbooks.definition import Playbook
from statewright.playbooks.source import PlaybookSource, ReadPlaybook, read_source
from statewright.playbooks.templates import Turn


class PlaybookProcess(Struct, frozen=True, kw_only=True, eq=False):
    """Immutable, and shared by all executions of the version."""

    source: PlaybookSource
    read: ReadPlaybook
    version: int
    compiled: CompiledPlaybook
    is_limited_to_turn: bool = False
    """Whether an operation that computes for long raises ``TurnExceeded``."""

    @property
    def playbook(self) -> Playbook:
        """The document."""
        return self.read.playbook

    def create_language(self) -> Language:
        """The rules for one operation."""
        return self.compiled.create_language(Turn() if self.is_limited_to_turn else None)


def compile_source(
    source: PlaybookSource, version: int, *, disabled_kinds: frozenset[str] = frozenset()
) -> PlaybookProcess:
    """A definition as a process; ``disabled_kinds`` as ``read_playbook`` has them. Raises ``InvalidPlaybook``."""
    read = read_source(source, disabled_kinds=disabled_kinds)
    return PlaybookProcess(source=source, read=read, version=version, compiled=compile_net(read.playbook))
