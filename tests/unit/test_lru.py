"""What a bounded cache keeps, and what it drops."""

from statewright.loop.lru import LruCache


def test_what_was_used_least_recently_is_dropped_first() -> None:
    cache: LruCache[str, int] = LruCache(2)
    cache.put("a", 1)
    cache.put("b", 2)
    assert cache.get("a") == 1
    cache.put("c", 3)
    assert (cache.get("a"), cache.get("b"), cache.get("c")) == (1, None, 3)


def test_a_look_does_not_count_as_use() -> None:
    cache: LruCache[str, int] = LruCache(2)
    cache.put("a", 1)
    cache.put("b", 2)
    assert cache.peek("a") == 1
    cache.put("c", 3)
    assert cache.peek("a") is None


def test_values_may_weigh_differently_and_the_last_one_always_stays() -> None:
    cache: LruCache[str, str] = LruCache(5, weigh=len)
    cache.put("a", "xx")
    cache.put("b", "xxx")
    assert len(cache) == 2
    cache.put("b", "x")
    cache.put("c", "xx")
    assert len(cache) == 3
    cache.put("d", "xxxxxxxxx")
    assert (len(cache), cache.get("d")) == (1, "xxxxxxxxx")


def test_what_was_dropped_by_hand_weighs_nothing() -> None:
    cache: LruCache[str, int] = LruCache(1)
    cache.put("a", 1)
    cache.discard("a")
    cache.discard("a")
    cache.put("b", 2)
    assert cache.get("b") == 2
    cache.clear()
    assert len(cache) == 0
