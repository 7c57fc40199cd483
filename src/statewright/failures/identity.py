"""The administration of clients and keys (docs/reference/authentication.md#clients)."""

from statewright.failures.failure import Failure


class FeatureDisabled(Failure):
    """What is asked for is switched off by a setting."""

    code, status = "FEATURE_DISABLED", 404


class ClientNotFound(Failure):
    """The tenant has no such machine client."""

    code, status = "M2M_CLIENT_NOT_FOUND", 404

    def __init__(self) -> None:
        super().__init__("M2M client not found")


class KeyPairNotFound(Failure):
    """There is no such key pair, or no active one for the audience."""

    code, status = "KEYPAIR_NOT_FOUND", 404

    def __init__(self, message: str = "key pair not found") -> None:
        super().__init__(message)


class UnsupportedAlgorithm(Failure):
    """A key pair is asked for that would sign in another way than RS256."""

    code, status = "UNSUPPORTED_ALGORITHM", 400
