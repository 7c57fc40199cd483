"""What tests of the operations API share."""

from dataclasses import replace

from tests.builders import Json
from tests.service import Api, RunningService, done


def ops_api(service: RunningService, tenant: str, *roles: str, user: str = "alice") -> Api:
    """The operations API as a user of the tenant sees it; paths begin behind ``/ops/v1``."""
    api = service.api(tenant, user, user_roles=["ROLE_USER", *roles])
    return replace(api, url=f"{service.root}/ops/v1")


def walk(ops: Api, path: str, *, limit: int) -> list[Json]:
    """All items of a list, page by page."""
    items, query = [], f"limit={limit}"
    while True:
        page = done(ops.get(f"{path}?{query}"))
        items += page["items"]
        if "nextCursor" not in page:
            return items
        assert len(page["items"]) == limit
        query = f"limit={limit}&cursor={page['nextCursor']}"
