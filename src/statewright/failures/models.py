"""Models, and documents that do not fit them (spec/models.md)."""

from statewright.failures.failure import Failure


class IncompatibleType(Failure):
    """A leaf value fits none of the types its model declares (spec/models.md §8)."""

    code, status = "INCOMPATIBLE_TYPE", 400


class PolymorphicSlot(Failure):
    """A scalar, an object and an array meet at one place of a growing model (spec/models.md §9.1)."""

    code, status = "POLYMORPHIC_SLOT", 400


class InvalidChangeLevel(Failure):
    """The change level is none of the four (spec/models.md §4.7)."""

    code, status = "INVALID_CHANGE_LEVEL", 400


class ModelNotFound(Failure):
    """The tenant has no such model."""

    code, status = "MODEL_NOT_FOUND", 404


class ModelNotLocked(Failure):
    """Entities need a locked model."""

    code, status = "MODEL_NOT_LOCKED", 409

    def __init__(self, message: str = "model is not locked") -> None:
        super().__init__(message)


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
    """Another live entity of the model has the same values in a unique key (spec/models.md §11.3)."""

    code, status = "UNIQUE_VIOLATION", 409

    def __init__(self) -> None:
        super().__init__("a composite unique key constraint was violated")
