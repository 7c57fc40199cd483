"""The cookies of logins, and where one may log in at all (docs/console.md#login)."""

from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from msgspec import Struct

SECURE_COOKIE: Final = "__Host-statewright"
PLAIN_COOKIE: Final = "statewright"
VISITOR_COOKIE: Final = "statewright-visitor"
FLOW_COOKIE: Final = "statewright-login"


class CookieRules(Struct, frozen=True, kw_only=True):
    """``public_url`` is where browsers find the service, empty where that is not set; ``has_tls``: it is served by
    https.
    """

    public_url: str = ""
    has_tls: bool = False

    @property
    def is_secure(self) -> bool:
        """Whether browsers come by https."""
        return self.public_url.startswith("https://") if self.public_url else self.has_tls

    @property
    def session_cookie(self) -> str:
        """The name of the cookie of a login."""
        return SECURE_COOKIE if self.is_secure else PLAIN_COOKIE

    def find_fault(self, origin: str) -> str | None:
        """Why nobody may log in at this address."""
        if self.public_url:
            return None if urlsplit(origin).netloc == urlsplit(self.public_url).netloc else f"Use {self.public_url}"
        if self.is_secure or is_loopback(urlsplit(origin).hostname or ""):
            return None
        return (
            "A login over plain http could be read by others: serve https, or set STATEWRIGHT_PUBLIC_URL to the https"
            " address of what stands before this service"
        )

    def format_session(self, value: str) -> str:
        """The cookie of a login, for as long as the browser is open."""
        if self.is_secure:
            return f"{SECURE_COOKIE}={value}; Secure; HttpOnly; SameSite=Lax; Path=/"
        return f"{PLAIN_COOKIE}={value}; HttpOnly; SameSite=Lax; Path=/console"

    def drop_session(self) -> str:
        """The cookie that takes that of a login away."""
        return f"{self.format_session('')}; Max-Age=0"

    def format_short(self, name: str, value: str, seconds: int) -> str:
        """A cookie of the login page itself."""
        secure = "; Secure" if self.is_secure else ""
        return f"{name}={value}; HttpOnly; SameSite=Lax; Path=/console; Max-Age={seconds}{secure}"


def is_loopback(host: str) -> bool:
    """Whether only this machine goes by that name."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
