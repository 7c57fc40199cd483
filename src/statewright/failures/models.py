"""The failures of models, and of documents that do not fit them (docs/reference/models.md#models)."""

from statewright.failures.failure import Failure


class IncompatibleType(Failure):
    """A leaf value fits none of the types its model declares (docs/reference/models.md#strict-validation)."""

    code, status = "INCOMPATIBLE_TYPE", 400


class PolymorphicSlot(Failure):
    """A scalar, an object and an array meet at one place of a growing model
    (docs/reference/models.md#refusals-under-a-change-level).
    """

    code, status = "POLYMORPHIC_SLOT", 400


class InvalidChangeLevel(Failure):
    """The change level is none of the four (docs/reference/models.md#set-the-change-level)."""

    code, status = "INVALID_CHANGE_LEVEL", 400


class ModelNotFound(Failure):
    """The tenant has no such model."""

    code, status = "MODEL_NOT_FOUND", 404


class ModelNotLocked(Failure):
    """Entities need a locked model."""

    code, status = "MODEL_NOT_LOCKED", 409

    def __init__(self, name: str | None = None, version: int = 0) -> None:
        if name is None:
            super().__init__("model is not locked")
            return
        mend = f"lock it by PUT /model/{name}/{version}/lock"
        super().__init__(
            f"model is not locked: {name}/{version}; {mend}", {"entityName": name, "entityVersion": version}
        )


class ModelAlreadyLocked(Failure):
    """The operation needs an unlocked model."""

    code, status = "MODEL_ALREADY_LOCKED", 409


class ModelAlreadyUnlocked(Failure):
    """The model is not locked."""

    code, status = "MODEL_ALREADY_UNLOCKED", 409


class ModelHasEntities(Failure):
    """The model cannot be unlocked or deleted while it has live entities."""

    code, status = "MODEL_HAS_ENTITIES", 409


class UniqueViolation(Failure):
    """Another live entity of the model has the same values in a unique key (docs/reference/models.md#enforcement)."""

    code, status = "UNIQUE_VIOLATION", 409

    def __init__(self) -> None:
        super().__init__("a composite unique key constraint was violated")
