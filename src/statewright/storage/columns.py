"""The columns of entities in PostgreSQL, named once: the SQL texts of this package are made from these lists.

``StagedRow`` says which columns a write gives, and with which types; ``EntityColumns`` sorts them by what becomes of
them. Only these constants are ever formatted into a text; values are always arguments. So a new column is a field of
``Entity`` and of ``StagedRow``, and two conversions: ``commit/overlay.py`` fills it,
``entities.to_entity`` reads it.
"""

from typing import Annotated, Final, get_args, get_origin, get_type_hints

from msgspec import Struct

Text = Annotated[str, "text"]
Uuid = Annotated[str, "uuid"]
Bigint = Annotated[int, "bigint"]
Integer = Annotated[int, "int"]
Jsonb = Annotated[str, "jsonb"]

CARRIED_AS: Final = {"jsonb": "text"}
"""Types that a parameter has as another type, since asyncpg would encode its values a second time."""


class StagedRow(Struct, frozen=True, gc=False):
    """What a transaction does to one entity, as a row of parameters of the commit statement.

    ``change`` is ``create``, ``update``, ``delete``, ``read`` (a version the transaction relied on), ``audit`` (nothing
    but events) or ``tasks`` (only scheduled tasks are concerned). ``expected`` is the version the entity must still
    have. The audit events of the run come as one text with their number and the instant of the first. All other fields
    are columns of the entity; a row that writes no version leaves most of them None.
    """

    change: Text
    expected: Uuid | None
    events_at: Bigint | None
    n: Integer | None
    events: Text | None
    tenant: Text
    id: Uuid
    entry_transaction_id: Uuid
    transaction_id: Uuid | None = None
    model: Uuid | None = None
    state: Text | None = None
    transition: Text | None = None
    workflow: Text | None = None
    workflow_revision: Bigint | None = None
    attributed_id: Text | None = None
    attributed_kind: Text | None = None
    executor_id: Text | None = None
    executor_kind: Text | None = None
    document: Jsonb | None = None


INSTRUCTIONS: Final = frozenset({"change", "expected", "events_at", "n", "events"})
"""Fields of a staged row that are no columns of the entity."""

INSTANTS: Final = ("created_at", "valid_from")
"""Columns of the entity that the database gives."""

CONSTANT: Final = frozenset({"tenant", "id", "model"})
"""Columns that are the same in all versions of an entity, besides ``created_at``."""

DELETION_STAMP: Final = (
    "transaction_id",
    "entry_transaction_id",
    "attributed_id",
    "attributed_kind",
    "executor_id",
    "executor_kind",
)
"""Columns of a tombstone that tell of the deletion; all others, without the document, are those of the last version."""


class ColumnList(tuple[str, ...]):
    """Names for an SQL text, each with the prefix that a format gives: ``{columns:old.}`` is ``old.id, old.state``."""

    __slots__ = ()

    def __format__(self, prefix: str) -> str:
        return ", ".join([prefix + name for name in self])


class EntityColumns:
    """Lists of columns, made from the fields of a staged row; their names are those of placeholders in SQL texts."""

    def __init__(self, row: type[StagedRow]) -> None:
        fields = row.__struct_fields__
        self._types = _read_sql_types(row)
        self.staged = ColumnList(fields)
        """Of a staged row, in the order of its fields."""
        self.version = ColumnList(name for name in fields if name not in INSTRUCTIONS)
        """What a write gives of a version."""
        self.entity = ColumnList([*self.version, *INSTANTS])
        """Of a version as it is stored and read."""
        self.replaced = ColumnList(name for name in self.version if name not in CONSTANT)
        """What a new version brings along."""
        self.definition = ColumnList(name for name in self.version if name.startswith("workflow"))
        """The workflow of a version, and the definition revision that moved it."""
        self.stamp = ColumnList(DELETION_STAMP)
        changed = {*DELETION_STAMP, "document"}
        self.kept = ColumnList([*(name for name in self.version if name not in changed), "created_at"])
        """What a tombstone takes over from the last version."""

    @property
    def parameters(self) -> str:
        """The parameters of staged rows, an array for each column; the first parameter is the transactions' numbers."""
        types = [CARRIED_AS.get(self._types[name], self._types[name]) for name in self.staged]
        return ", ".join(f"${number}::{type_}[]" for number, type_ in enumerate(types, start=2))

    @property
    def version_values(self) -> ColumnList:
        """``version`` as expressions that turn parameters into what is stored."""
        return ColumnList(map(self._cast, self.version))

    @property
    def next_columns(self) -> str:
        """``replaced`` under names with ``next_``."""
        return ", ".join(f"{name} AS next_{name}" for name in self.replaced)

    @property
    def assignments(self) -> str:
        """Sets ``replaced`` to what ``locked`` has as the next version."""
        return ", ".join(f"{name} = locked.next_{self._cast(name)}" for name in self.replaced)

    def _cast(self, name: str) -> str:
        return f"{name}::{self._types[name]}" if self._types[name] in CARRIED_AS else name


def _read_sql_types(row: type[StagedRow]) -> dict[str, str]:
    """The types of the columns, with which the fields are annotated."""
    hints = get_type_hints(row, include_extras=True)
    return {name: _find_annotation(hints[name]) for name in row.__struct_fields__}


def _find_annotation(hint: object) -> str:
    if get_origin(hint) is Annotated:
        return str(get_args(hint)[1])
    return next(_find_annotation(member) for member in get_args(hint) if member is not type(None))


ENTITY_COLUMNS: Final = EntityColumns(StagedRow)
