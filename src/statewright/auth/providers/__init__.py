"""Identity providers of tenants, whose tokens count as credentials (docs/reference/oidc.md).

What is here depends on neither network nor database: what providers publish is parsed, and their tokens are verified
with the keys that somebody else has fetched (``services/auth/provider_keys.py``).
"""

from statewright.auth.providers.documents import Discovery, Provider, UnusableDocument, read_discovery, read_key_set
from statewright.auth.providers.federation import FederatedTokens, KnownProvider, PublishedKeys

__all__ = [
    "Discovery",
    "FederatedTokens",
    "KnownProvider",
    "Provider",
    "PublishedKeys",
    "UnusableDocument",
    "read_discovery",
    "read_key_set",
]
