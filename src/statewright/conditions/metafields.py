"""The closed vocabulary of lifecycle conditions (spec/search.md §6)."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from statewright.jsonval.datatypes import DataType


class MetaField(StrEnum):
    """A metadata field; the value is its attribute in :class:`~statewright.entity.EntityMeta`."""

    ID = "id"
    STATE = "state"
    CREATION_DATE = "creation_date"
    LAST_UPDATE_TIME = "last_update_time"
    TRANSITION = "transition"
    TRANSACTION_ID = "transaction_id"

    @property
    def is_time(self) -> bool:
        """Whether the field is an instant, compared in milliseconds; the others are texts."""
        return self in (MetaField.CREATION_DATE, MetaField.LAST_UPDATE_TIME)

    @property
    def types(self) -> frozenset[DataType]:
        """As what operands are read."""
        return frozenset((DataType.ZONED_DATE_TIME if self.is_time else DataType.STRING,))


META_FIELDS: Final[Mapping[str, MetaField]] = {
    "id": MetaField.ID,
    "state": MetaField.STATE,
    "creationDate": MetaField.CREATION_DATE,
    "lastUpdateTime": MetaField.LAST_UPDATE_TIME,
    "transitionForLatestSave": MetaField.TRANSITION,
    "previousTransition": MetaField.TRANSITION,
    "transactionId": MetaField.TRANSACTION_ID,
}
"""Names in conditions, case-sensitive."""
