"""What is wrong with a document, or doubtful: each with the place and what was expected there."""

from typing import Final, Literal

from msgspec import Struct

MAX_FINDINGS: Final = 100
"""Of each kind; more would tell nobody more."""


class Finding(Struct, frozen=True, kw_only=True, order=True):
    """An error keeps a playbook from being registered, a warning does not."""

    path: str
    """A JSON pointer (RFC 6901)."""
    message: str
    severity: Literal["error", "warning"] = "error"


class InvalidPlaybook(ValueError):
    """A document that is no playbook, with all that is wrong with it."""

    def __init__(self, findings: tuple[Finding, ...]) -> None:
        super().__init__("; ".join(f"{finding.path or '/'}: {finding.message}" for finding in findings))
        self.findings = findings


class Findings:
    """Collects what is found, up to :data:`MAX_FINDINGS` of each severity."""

    def __init__(self) -> None:
        self.errors: list[Finding] = []
        self.warnings: list[Finding] = []

    def add_error(self, path: str, message: str) -> None:
        """Something that must be mended."""
        if len(self.errors) < MAX_FINDINGS:
            self.errors.append(Finding(path=path, message=message))

    def add_warning(self, path: str, message: str) -> None:
        """Something that the author should look at."""
        if len(self.warnings) < MAX_FINDINGS:
            self.warnings.append(Finding(path=path, message=message, severity="warning"))


def escape(name: str) -> str:
    """A name as a JSON pointer has it."""
    return name.replace("~", "~0").replace("/", "~1")
