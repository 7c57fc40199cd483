"""What public playbooks would need to run here: many documents, told on one page
(docs/reference/playbooks.md#older-forms). All of it is pure.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Literal, TypeAlias

from msgspec import Struct

from statewright.jsonval.values import JsonObject, JsonValue
from statewright.playbooks.convert import Conversion, convert_playbook, count_forms, is_playbook
from statewright.playbooks.place import Finding
from statewright.playbooks.reading import read_playbook
from statewright.playbooks.tasks import COMPUTE, SERVICE_KINDS, WORKBOOK

_NEEDS_NO_WORKER: Final = frozenset((*SERVICE_KINDS, COMPUTE, WORKBOOK))
_TEMPLATE_DEFECTS: Final = ("is no template", "is no condition")


State: TypeAlias = Literal["ok", "convertible", "findings", "other"]


class FileSurvey(Struct, frozen=True, kw_only=True):
    """What one document would need."""

    file: str
    state: State
    """``ok``: registered as it is; ``convertible``: once it is converted; ``other``: it is no playbook."""
    forms: Mapping[str, int] = {}
    """Older forms, by how often they stand in it."""
    findings: tuple[Finding, ...] = ()
    """Errors that keep it out even when it is converted."""
    kinds: Mapping[str, int] = {}
    """Tasks by kind, those of the workbook included."""
    credentials: tuple[str, ...] = ()
    """Names in ``keychain`` and in ``auth`` of tasks; a template of one as it is written."""
    bare_names: tuple[str, ...] = ()
    """Names in templates that nothing in the playbook gives a value."""
    templates: tuple[Finding, ...] = ()
    """Those of ``findings`` that are about constructs of Jinja2 that are not offered."""


class Totals(Struct, frozen=True, kw_only=True):
    """Of all documents."""

    files: Mapping[str, int]
    """By state, and ``all``."""
    kinds: Mapping[str, int]
    worker_kinds: Mapping[str, int]
    """Those of ``kinds`` that need a worker."""
    forms: Mapping[str, int]
    credentials: tuple[str, ...]


class Survey(Struct, frozen=True, kw_only=True):
    """What many documents would need."""

    totals: Totals
    files: tuple[FileSurvey, ...]


def survey_playbook(file: str, text: bytes | str) -> FileSurvey:
    """What a document would need. It costs as much as converting and reading it once more."""
    conversion = convert_playbook(text)
    document = conversion.document
    if document and not is_playbook(document):
        return FileSurvey(file=file, state="other")
    reading = read_playbook(document)
    findings = (*conversion.errors, *(reading.errors if document else ()))
    doubtful = () if reading.playbook is None else reading.playbook.doubtful
    return FileSurvey(
        file=file,
        state=_name_state(conversion, findings),
        forms=count_forms(conversion.changes),
        findings=findings,
        kinds=_sort(Counter(_list_kinds(document))),
        credentials=tuple(dict.fromkeys(_list_credentials(document))),
        bare_names=tuple(dict.fromkeys(name.name for name in doubtful)),
        templates=tuple(one for one in findings if one.message.startswith(_TEMPLATE_DEFECTS)),
    )


def _name_state(conversion: Conversion, findings: tuple[Finding, ...]) -> State:
    if findings:
        return "findings"
    return "convertible" if conversion.changes else "ok"


def sum_up(files: Iterable[FileSurvey]) -> Survey:
    """The survey of all documents, in the order in which they come."""
    kept = tuple(files)
    kinds, forms = Counter[str](), Counter[str]()
    for file in kept:
        kinds.update(file.kinds)
        forms.update(file.forms)
    totals = Totals(
        files={"all": len(kept), **_sort(Counter(file.state for file in kept))},
        kinds=_sort(kinds),
        worker_kinds=_sort(Counter({kind: count for kind, count in kinds.items() if kind not in _NEEDS_NO_WORKER})),
        forms=_sort(forms),
        credentials=tuple(sorted({name for file in kept for name in file.credentials})),
    )
    return Survey(totals=totals, files=kept)


def _sort(counts: Mapping[str, int]) -> dict[str, int]:
    """The most frequent first."""
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _list_tools(document: JsonObject) -> Iterator[JsonObject]:
    """The tasks of all steps and of the workbook, as they are written."""
    pending = [document.get("workflow"), document.get("workbook")]
    while pending:
        value = pending.pop()
        if isinstance(value, list):
            pending.extend(value)
        elif isinstance(value, dict) and isinstance(value.get("kind"), str):
            yield value
        elif isinstance(value, dict):
            is_step = "step" in value or "tool" in value
            pending.extend([value.get("tool")] if is_step else value.values())


def _list_kinds(document: JsonObject) -> Iterator[str]:
    for tool in _list_tools(document):
        yield str(tool["kind"])


def _list_credentials(document: JsonObject) -> Iterator[str]:
    keychain = document.get("keychain")
    declared: list[JsonValue] = keychain if isinstance(keychain, list) else []
    for name in (entry.get("name") for entry in declared if isinstance(entry, dict)):
        if isinstance(name, str):
            yield name
    for auth in (tool.get("auth") for tool in _list_tools(document)):
        if isinstance(auth, str):
            yield auth
