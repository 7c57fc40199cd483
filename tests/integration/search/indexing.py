"""Declaring indexes as an administrator does."""

from tests.builders import Json
from tests.service import Api, done, wait_for


def declared(api: Api, path: str, **members: Json) -> Json:
    return done(api.post("/model/parcel/1/index", {"path": path, **members}))


def indexes(api: Api) -> list[Json]:
    return list(done(api.get("/model/parcel/1/index")))


def built(api: Api, path: str, **members: Json) -> Json:
    """An index that is ready."""
    wanted = declared(api, path, **members)["id"]
    return wait_for(
        lambda: next(one for one in indexes(api) if one["id"] == wanted), lambda one: one["status"] == "READY"
    )


def gone(api: Api, index: str) -> None:
    done(api.delete(f"/model/parcel/1/index/{index}"))
    wait_for(lambda: indexes(api), lambda ones: all(one["id"] != index for one in ones))
