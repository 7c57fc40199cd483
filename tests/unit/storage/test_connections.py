"""Database URLs, as they come from operators."""

from datetime import timedelta

import pytest

from statewright.storage.connections import CONNECT_TIMEOUT, parse_database_url


@pytest.mark.parametrize(
    "url",
    [
        "postgres://ann:secret@db.example:5433/app?sslmode=require",
        "postgresql://db.example/app",
        "postgresql://ann@/app?host=%2Fvar%2Frun%2Fpostgresql",
        "postgresql://one:5432,two:5433/app?target_session_attrs=primary",
    ],
)
def test_what_asyncpg_understands_is_left_alone(url: str):
    assert parse_database_url(url).dsn == url


def test_parameters_that_steer_other_drivers_are_dropped():
    url = "postgres://db/app?pool_max_conns=7&sslmode=require&channel_binding=require&gssencmode=disable"
    assert parse_database_url(url).dsn == "postgres://db/app?sslmode=require"


def test_settings_of_the_server_are_kept():
    assert parse_database_url("postgres://db/app?search_path=mine").dsn == "postgres://db/app?search_path=mine"


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("?connect_timeout=3", timedelta(seconds=3)),
        ("?connect_timeout=0", CONNECT_TIMEOUT),
        ("?connect_timeout=soon", CONNECT_TIMEOUT),
        ("", CONNECT_TIMEOUT),
    ],
)
def test_a_connect_timeout_in_the_url_is_heeded(query: str, expected: timedelta):
    assert parse_database_url(f"postgres://db/app{query}").connect_timeout == expected


@pytest.mark.parametrize("url", ["mysql://ann:secret@db/app", "host=db password=secret", ""])
def test_anything_but_a_database_url_is_refused_without_quoting_it(url: str):
    with pytest.raises(ValueError, match="starts with postgres:// or postgresql://") as refusal:
        parse_database_url(url)
    assert "secret" not in str(refusal.value)


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("postgres://ann:sec@ret@db.example:5433/app?sslmode=require", "db.example:5433/app"),
        ("postgresql://ann@/app?host=/run/postgresql&password=secret", "/run/postgresql/app"),
    ],
)
def test_the_place_of_a_database_can_be_told_without_its_secrets(url: str, place: str):
    assert parse_database_url(url).location == place
