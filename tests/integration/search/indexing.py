"""Declaring indexes as an administrator does."""

import time
from collections.abc import Callable

from tests.builders import Json
from tests.service import PATIENCE_S, Api, done


def declared(api: Api, path: str, **members: Json) -> Json:
    return done(api.post("/model/parcel/1/index", {"path": path, **members}))


def indexes(api: Api) -> list[Json]:
    return list(done(api.get("/model/parcel/1/index")))


def built(api: Api, path: str, **members: Json) -> Json:
    """An index that is ready."""
    wanted = declared(api, path, **members)["id"]
    return eventually(
        lambda: next(one for one in indexes(api) if one["id"] == wanted), lambda one: one["status"] == "READY"
    )


def eventually(look: Callable[[], Json], is_it: Callable[[Json], bool]) -> Json:
    deadline = time.monotonic() + PATIENCE_S
    while not is_it(seen := look()):
        assert time.monotonic() < deadline, seen
    return seen


def gone(api: Api, index: str) -> None:
    done(api.delete(f"/model/parcel/1/index/{index}"))
    eventually(lambda: indexes(api), lambda ones: all(one["id"] != index for one in ones))
