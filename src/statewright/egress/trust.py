"""Which servers are believed to be who they say."""

import ssl
from typing import Final

import httpx

from statewright.egress.policy import EgressPolicy

_VERSIONS: Final = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}


def build_client_context(policy: EgressPolicy) -> ssl.SSLContext:
    """What a client of TLS needs. ``SSL_CERT_FILE`` and ``SSL_CERT_DIR`` replace the usual authorities. Raises
    ``OSError`` when the file of the policy cannot be used.
    """
    context = httpx.create_ssl_context()
    context.minimum_version = _VERSIONS[policy.min_tls]
    if policy.certificates is not None:
        try:
            context.load_verify_locations(policy.certificates)
        except OSError as error:
            reason = getattr(error, "reason", None) or error.strerror or error
            raise OSError(f"cannot use the certificates of {policy.certificates}: {reason}") from error
    return context
