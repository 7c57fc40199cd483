"""Why a token of an identity provider is refused, as the log tells it (docs/reference/oidc.md#tokens)."""

from collections.abc import Sequence

import pytest

from statewright.auth import keys as jws
from statewright.auth.providers import FederatedTokens, KnownProvider
from statewright.auth.tokens import UnknownKey
from tests.unit.auth.builders import Clock, minted


class NoKeys:
    """What a provider publishes whose keys could not be fetched."""

    def find_key(self, _kid: str, _now: int) -> None:
        return None


class OneProvider:
    """The provider of the issuer ``cyoda``."""

    hits = misses = generation = 0

    def __init__(self) -> None:
        self.known = KnownProvider(provider=None, keys=NoKeys())  # type: ignore[arg-type]

    def find_candidates(self, issuer: str) -> Sequence[KnownProvider]:
        return [self.known] if issuer == "cyoda" else []


@pytest.mark.parametrize(
    ("issuer", "told"), [("cyoda", "unknown key"), ("cyoda/", "unknown key, and no provider has this iss")]
)
def test_an_issuer_that_no_provider_has_is_told_apart_from_a_key_that_none_has(issuer: str, told: str) -> None:
    tokens = FederatedTokens(OneProvider(), "roles", Clock())
    with pytest.raises(UnknownKey) as refused:
        tokens.verify(jws.parse(minted(iss=issuer)))
    assert str(refused.value) == told
