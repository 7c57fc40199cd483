"""What becomes of a collection when its client goes away in the middle (docs/reference/entities.md#chunks)."""

import http.client
from urllib.parse import urlsplit

from tests.service import Api, done, eventually

ITEMS = 8000


def count(api: Api) -> int:
    row = done(api.get("/entity/stats/prize/1"))
    return int(row["count"])


def test_the_chunks_that_were_not_begun_are_never_written(api: Api) -> None:
    model = api.a_model()
    body = b"[" + b",".join([b'{"year":2024}'] * ITEMS) + b"]"
    url = urlsplit(api.url)
    connection = http.client.HTTPConnection(url.netloc)
    headers = {"Authorization": f"Bearer {api.token}"}
    connection.request("POST", f"{url.path}/entity/JSON/{model}?transactionWindow=1", body, headers)
    eventually(lambda: count(api) > 0)
    connection.close()

    def has_ended() -> bool:
        before = count(api)
        return [count(api) for _ in range(10)] == [before] * 10

    eventually(has_ended)
    assert 0 < count(api) < ITEMS
