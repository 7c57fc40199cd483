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


class TrustedKeyNotFound(Failure):
    """The tenant trusts no such key."""

    code, status = "TRUSTED_KEY_NOT_FOUND", 404

    def __init__(self) -> None:
        super().__init__("trusted key not found")


class UnsupportedKeyType(Failure):
    """A key is to be trusted that is not one of RSA."""

    code, status = "UNSUPPORTED_KEY_TYPE", 400


class TrustedKeyCapReached(Failure):
    """The tenant trusts as many keys as it may."""

    code, status = "TRUSTED_KEY_CAP_REACHED", 400

    def __init__(self) -> None:
        super().__init__("trusted-key cap reached for tenant")


class KeyOwnedByDifferentTenant(Failure):
    """Another tenant has registered a key under this id."""

    code, status = "KEY_OWNED_BY_DIFFERENT_TENANT", 409

    def __init__(self) -> None:
        super().__init__("the key id is taken by another tenant")


class ProviderNotFound(Failure):
    """The tenant has no such identity provider."""

    code, status = "OIDC_PROVIDER_NOT_FOUND", 404

    def __init__(self) -> None:
        super().__init__("OIDC provider not found")


class ProviderDuplicate(Failure):
    """The tenant has registered a provider with this discovery document already."""

    code, status = "OIDC_PROVIDER_DUPLICATE", 409

    def __init__(self) -> None:
        super().__init__("a provider with this wellKnownConfigUri is already registered")


class ProviderTaken(ProviderDuplicate):
    """Issuer and audience belong to the tenant that registered them first (docs/reference/oidc.md#providers). Which one
    that is, is not said. ``field`` is the member that would have to be another.
    """

    def __init__(self, field: str) -> None:
        Failure.__init__(self, f"{field}: issuer and audience are registered already", {"field": field})


class ProviderInactive(Failure):
    """An identity provider is to be changed that was invalidated."""

    code, status = "OIDC_PROVIDER_INACTIVE", 409

    def __init__(self) -> None:
        super().__init__("the provider is invalidated: reactivate it first")


class ProviderAddressBlocked(Failure):
    """The address of an identity provider is one that is not called."""

    code, status = "OIDC_SSRF_BLOCKED", 400


class InvalidProviderTenant(Failure):
    """Only tenants whose ids are UUIDs have identity providers."""

    code, status = "OIDC_INVALID_TENANT", 400

    def __init__(self) -> None:
        super().__init__("the tenant id is not a UUID")
