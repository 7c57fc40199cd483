"""Identity providers as tenants have registered them (docs/reference/oidc.md#providers)."""

from msgspec import Struct

from statewright.ids import TenantId


class Provider(Struct, frozen=True, kw_only=True):
    """A provider of ``tenant``. ``uri`` is that of its discovery document. Times in microseconds since 1970.

    Without ``issuers`` its tokens name the issuer of that document, without ``audiences`` any audience. ``roles_claim``
    None: the one of the settings. Keys that were fetched before ``keys_since`` do not count; after ``reloaded_at`` they
    are fetched again and count meanwhile.
    """

    id: str
    tenant: TenantId
    uri: str
    active: bool = True
    issuers: tuple[str, ...] = ()
    audiences: tuple[str, ...] = ()
    roles_claim: str | None = None
    created_at: int
    keys_since: int = 0
    reloaded_at: int = 0
