"""A process of its own: an OpenID Connect provider (Flask and Authlib, by the package ``oidc-provider-mock``).

It publishes its key with an id, and does not name it in its tokens, as OpenID Connect permits to who has a single key
and as no provider does whose keys can be replaced. So the id is put in here.

Arguments: a port, and the claims of a user as JSON.
"""

import json
import sys
from datetime import timedelta
from typing import Any

import oidc_provider_mock
from oidc_provider_mock import _app as provider
from werkzeug.serving import run_simple


class NamedKeys(provider.OpenIDCode):
    def get_jwt_config(self, grant: Any, client: object = None) -> dict[str, Any]:
        config = super().get_jwt_config(grant, client)
        return config | {"kid": config["key"].get("kid") or provider.storage.jwk.thumbprint()}


if __name__ == "__main__":
    provider.OpenIDCode = NamedKeys
    port, claims = int(sys.argv[1]), json.loads(sys.argv[2])
    user = oidc_provider_mock.User(sub=claims["sub"], claims=claims)
    app = oidc_provider_mock.app(user_claims=[user], access_token_max_age=timedelta(hours=1))
    app.debug = False
    run_simple("127.0.0.1", port, app)
