"""Settings: what each variable means, which wins, and how a bad one is reported."""

from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import get_args, get_origin, get_type_hints

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from statewright.network.tls import Tls
from statewright.settings import SETTINGS, Secret, Settings, SettingsError, list_variables
from statewright.settings.kinds import is_loopback, read_duration, read_flag, show_duration, split_encryption_keys

REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "settings.md"
PEM = "-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----"
TRUE_WORDS = ["1", "t", "T", "TRUE", "true", "True"]
FALSE_WORDS = ["0", "f", "F", "FALSE", "false", "False"]


def settings(**variables: str) -> Settings:
    return Settings.from_environment(variables)


def jwt_settings(**variables: str) -> Settings:
    return settings(CYODA_IAM_MODE="jwt", CYODA_JWT_SIGNING_KEY=PEM, **variables)


def refusal(**variables: str) -> str:
    with pytest.raises(SettingsError) as refused:
        settings(**variables)
    message = str(refused.value)
    assert message.startswith(f"{refused.value.variable}: ")
    assert "\n" not in message
    return message


# Defaults and names


def test_an_empty_environment_gives_the_defaults():
    assert settings(HOME="/home/ada") == msgspec.structs.replace(
        Settings(), data_directory=Path("/home/ada/.local/share/statewright")
    )


def test_a_fresh_start_listens_on_this_machine_only():
    assert is_loopback(settings().host)
    assert is_loopback(settings().admin_bind_address)


def test_the_settings_cannot_be_changed():
    with pytest.raises(AttributeError):
        settings().http_port = 1  # type: ignore[misc]


@pytest.mark.parametrize("name", SETTINGS)
def test_every_default_is_what_its_own_text_reads_as(name: str):
    reader, default = SETTINGS[name].reader, getattr(Settings(), name)
    if default not in (None, "", ()):
        assert reader.read(reader.show(default)) == default


@pytest.mark.parametrize("name", SETTINGS)
def test_a_reader_gives_values_of_the_type_of_its_field(name: str):
    samples = {
        "host": "::1", "context_path": "/x", "cors_allowed_origins": "*", "jwt_signing_key": PEM,
        "encryption_key": "00" * 32, "console_oidc_secrets": "provider=secret",
        "postgres_url": "postgres://h/d", "storage_backend": "sqlite",
    }  # fmt: skip
    reader, default = SETTINGS[name].reader, getattr(Settings(), name)
    value = reader.read(samples.get(name) or (reader.show(default) if default is not None else "text"))
    assert isinstance(value, _classes_of(get_type_hints(Settings)[name]))


def _classes_of(hint: object) -> tuple[type, ...]:
    origin = get_origin(hint)
    if isinstance(hint, type) and origin is None:
        return (hint,)
    if origin is tuple:
        return (tuple,)
    members = get_args(hint)
    return tuple(type(member) if isinstance(member, str) else member for member in members)


def test_a_variable_sets_its_field():
    assert settings(STATEWRIGHT_HTTP_PORT="8181").http_port == 8181


def test_the_name_of_the_dialect_is_an_alias():
    assert settings(CYODA_HTTP_PORT="8181").http_port == 8181


def test_our_own_name_wins_over_the_alias():
    assert settings(STATEWRIGHT_HTTP_PORT="1", CYODA_HTTP_PORT="2").http_port == 1


def test_an_alias_that_is_overruled_is_not_even_read():
    assert settings(STATEWRIGHT_HTTP_PORT="1", CYODA_HTTP_PORT="nonsense").http_port == 1


def test_a_misspelt_variable_of_ours_stops_the_start_with_a_suggestion():
    assert refusal(STATEWRIGHT_HTP_PORT="1") == (
        "STATEWRIGHT_HTP_PORT: unknown setting; did you mean STATEWRIGHT_HTTP_PORT?"
    )


def test_the_url_of_the_database_is_suggested_under_the_name_that_others_give_it():
    assert refusal(STATEWRIGHT_DATABASE_URL="x").endswith("; did you mean STATEWRIGHT_POSTGRES_URL?")


def test_an_unknown_variable_of_ours_that_resembles_nothing_is_refused_too():
    assert refusal(STATEWRIGHT_XYZZY="1") == "STATEWRIGHT_XYZZY: unknown setting"


def test_an_alias_is_not_invented_for_settings_that_only_we_have():
    assert settings(CYODA_SHUTDOWN_TIMEOUT="1s").shutdown_timeout == timedelta(seconds=10)


def test_an_unknown_variable_of_the_dialect_is_ignored_with_a_warning():
    assert settings(CYODA_XYZZY="1").warnings == ("CYODA_XYZZY is unknown and ignored",)


@pytest.mark.parametrize(
    ("variable", "text", "field", "value"),
    [
        ("WE_POSTGRES_DSN", "postgres://u:p@db:5433/steps", "postgres_url", Secret("postgres://u:p@db:5433/steps")),
        ("WE_REST_PORT", "8181", "http_port", 8181),
        ("WE_GRPC_PORT", "9191", "grpc_port", 9191),
        ("WE_METRICS_PORT", "9192", "admin_port", 9192),
        ("WE_LOG_LEVEL", "warn", "log_level", "warn"),
        ("WE_DISPATCH_MODE", "polling", "steps_dispatch", "poll"),
        ("DB_MAX_CONNS", "7", "postgres_max_conns", 7),
        ("DB_MIN_CONNS", "3", "postgres_min_conns", 3),
    ],
)
def test_the_names_of_the_public_step_engine_are_aliases(variable: str, text: str, field: str, value: object):
    read = settings(**{variable: text})
    assert (getattr(read, field), read.sources, read.warnings) == (value, {field: variable}, ())


def test_names_of_the_step_engine_come_after_ours_and_those_of_the_dialect():
    assert settings(WE_REST_PORT="3", CYODA_HTTP_PORT="2").http_port == 2
    assert settings(WE_REST_PORT="3", STATEWRIGHT_HTTP_PORT="1").http_port == 1


@pytest.mark.parametrize(
    ("dsn", "url"),
    [
        ("host=db port=5433 user=ada password=s3cret dbname=steps", "postgres://ada:s3cret@db:5433/steps"),
        ("host=db dbname=steps sslmode=require", "postgres://db/steps?sslmode=require"),
        (r"user='a b' password = 'it\'s \\ @home' host=db", r"postgres://a%20b:it%27s%20%5C%20%40home@db/"),
        ("host=/run/pg dbname=steps", "postgres:///steps?host=%2Frun%2Fpg"),
        ("host=a,b port=1,2 dbname=x", "postgres:///x?host=a%2Cb&port=1%2C2"),
        ("host=db password='' dbname= x ", "postgres://db/x"),
    ],
)
def test_a_dsn_of_parameters_becomes_a_url(dsn: str, url: str):
    assert settings(WE_POSTGRES_DSN=dsn).postgres_url == Secret(url)


@pytest.mark.parametrize("dsn", ["mysql://db/x", "host='db", "host=db nonsense", "db"])
def test_a_dsn_that_cannot_be_understood_is_refused_without_its_text(dsn: str):
    message = refusal(WE_POSTGRES_DSN=dsn)
    assert message.startswith("WE_POSTGRES_DSN: the value is ")
    assert dsn not in message


def test_a_dsn_can_stand_in_a_file(tmp_path: Path):
    (tmp_path / "dsn").write_text("host=db dbname=x\n")
    assert settings(WE_POSTGRES_DSN_FILE=str(tmp_path / "dsn")).postgres_url == Secret("postgres://db/x")


def test_the_dispatch_mode_with_a_broker_is_refused():
    assert refusal(WE_DISPATCH_MODE="kafka_outbox") == (
        'WE_DISPATCH_MODE: "kafka_outbox" is not available here: there is no broker, workers poll (polling)'
    )
    assert "is not one of polling" in refusal(WE_DISPATCH_MODE="poll")


def test_names_of_the_step_engine_without_a_meaning_here_are_named_in_one_warning():
    [warning] = settings(WE_OUTBOX_BATCH_SIZE="9", WE_AUDIT_LOG_ENABLED="false", CYODA_TX_TTL="5m").warnings
    assert warning.startswith("CYODA_TX_TTL, WE_AUDIT_LOG_ENABLED, WE_OUTBOX_BATCH_SIZE without effect")


@pytest.mark.parametrize(
    ("variable", "suggestion"),
    [
        ("WE_POSTGRES_URL", "; did you mean WE_POSTGRES_DSN?"),
        ("WE_RESTPORT", "; did you mean WE_REST_PORT?"),
        ("WE_KAFKA_SEED_BROKER", "; did you mean WE_KAFKA_SEED_BROKERS?"),
        ("CYODA_HTP_PORT", "; did you mean CYODA_HTTP_PORT?"),
        ("WE_XYZZY", ""),
    ],
)
def test_an_unknown_name_of_a_dialect_is_told_with_what_may_be_meant(variable: str, suggestion: str):
    assert settings(**{variable: "1"}).warnings == (f"{variable} is unknown and ignored{suggestion}",)


def test_what_kubernetes_says_about_a_service_named_we_is_no_setting():
    assert settings(WE_SERVICE_HOST="10.0.0.1", WE_PORT="tcp://10.0.0.1:80").warnings == ()


def test_documented_variables_that_do_not_apply_here_are_named_in_one_warning():
    [warning] = settings(CYODA_TX_TTL="5m", CYODA_CLUSTER_ENABLED="true", CYODA_SQLITE_PATH="x").warnings
    assert warning.startswith("CYODA_CLUSTER_ENABLED, CYODA_SQLITE_PATH, CYODA_TX_TTL without effect")


def test_identity_providers_are_configured_by_the_names_of_the_dialect():
    read = settings(CYODA_OIDC_ROLES_CLAIM="groups", CYODA_OIDC_REQUIRE_HTTPS="false")
    assert (read.oidc_roles_claim, read.oidc_require_https, read.warnings) == ("groups", False, ())


def test_variables_of_clients_are_no_settings():
    assert settings(CYODA_CLIENT_SECRET="anything").warnings == ()


def test_traces_are_switched_on_by_the_name_of_the_dialect():
    assert settings(CYODA_OTEL_ENABLED="true").otel_enabled
    assert not settings(CYODA_OTEL_ENABLED="false").otel_enabled


@pytest.mark.parametrize(
    ("given", "missing"),
    [("TLS_CERT", "TLS_KEY"), ("TLS_KEY", "TLS_CERT"), ("TLS_CLIENT_CA", "TLS_CERT")],
)
def test_half_of_tls_is_refused(given: str, missing: str):
    assert refusal(**{f"STATEWRIGHT_{given}": "/x.pem"}) == (
        f"STATEWRIGHT_{missing}: must be set because STATEWRIGHT_{given} is"
    )


def test_tls_is_off_unless_there_is_a_certificate():
    assert settings().tls is None
    given = settings(STATEWRIGHT_TLS_CERT="/c.pem", STATEWRIGHT_TLS_KEY="/k.pem", STATEWRIGHT_TLS_MIN_VERSION="1.3")
    assert given.tls == Tls(certificate=Path("/c.pem"), key=Path("/k.pem"), min_version="1.3")
    assert given.warnings == ()


def test_a_plain_channel_between_hosts_beside_tls_is_doubtful():
    tls = {"STATEWRIGHT_TLS_CERT": "/c.pem", "STATEWRIGHT_TLS_KEY": "/k.pem"}
    [warning] = settings(STATEWRIGHT_NODE_BIND_ADDRESS="10.0.0.7", **tls).warnings
    assert warning.startswith("STATEWRIGHT_NODE_BIND_ADDRESS is 10.0.0.7: the channel between nodes is not encrypted")


def test_a_node_that_listens_everywhere_must_say_where_it_is():
    assert "STATEWRIGHT_NODE_HOST" in refusal(STATEWRIGHT_NODE_BIND_ADDRESS="0.0.0.0")
    assert settings(STATEWRIGHT_NODE_BIND_ADDRESS="0.0.0.0", STATEWRIGHT_NODE_HOST="10.0.0.7").node_host == "10.0.0.7"


@pytest.mark.parametrize(
    "variable",
    [
        "STATEWRIGHT_SERVICE_HOST", "STATEWRIGHT_SERVICE_PORT", "STATEWRIGHT_SERVICE_PORT_HTTP",
        "STATEWRIGHT_PORT_8080_TCP", "STATEWRIGHT_PORT_8080_TCP_ADDR", "STATEWRIGHT_HEADLESS_SERVICE_HOST",
    ],
)  # fmt: skip
def test_what_kubernetes_says_about_a_service_named_like_us_is_no_setting(variable: str):
    assert settings(**{variable: "10.0.0.1"}) == settings()


def test_the_address_that_kubernetes_puts_into_a_port_variable_is_no_setting():
    assert settings(STATEWRIGHT_PORT="tcp://10.0.0.1:8080") == settings()
    assert "unknown setting" in refusal(STATEWRIGHT_PORT="8080")


def test_a_launcher_can_configure_the_ports_alone():
    built = settings(CYODA_HTTP_PORT="18080", CYODA_GRPC_PORT="19090", CYODA_ADMIN_PORT="19091")
    assert (built.http_port, built.grpc_port, built.admin_port) == (18080, 19090, 19091)


# Values


@pytest.mark.parametrize("word", TRUE_WORDS)
def test_words_that_are_true(word: str):
    assert settings(CYODA_POSTGRES_AUTO_MIGRATE=word).postgres_auto_migrate is True


@pytest.mark.parametrize("word", FALSE_WORDS)
def test_words_that_are_false(word: str):
    assert settings(CYODA_POSTGRES_AUTO_MIGRATE=word).postgres_auto_migrate is False


@given(st.text().filter(lambda text: text.strip() not in {*TRUE_WORDS, *FALSE_WORDS}))
def test_no_other_word_is_a_boolean(text: str):
    with pytest.raises(ValueError, match="boolean"):
        read_flag(text)


@given(st.timedeltas(min_value=timedelta(0)))
def test_a_duration_reads_back_as_what_was_shown(span: timedelta):
    assert read_duration(show_duration(span)) == span


@given(st.text())
def test_reading_a_duration_gives_a_span_or_a_value_error(text: str):
    with suppress(ValueError):
        assert read_duration(text) >= timedelta(0)


@given(st.integers(min_value=1))
def test_a_bare_number_is_no_duration(number: int):
    with pytest.raises(ValueError, match="is not a duration"):
        read_duration(str(number))


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("300ms", 300),
        ("90s", 90_000),
        ("1h30m", 5_400_000),
        ("1.5s", 1_500),
        (".5s", 500),
        ("0", 0),
        ("2m3s4ms", 123_004),
    ],
)
def test_durations_as_they_are_written(text: str, milliseconds: int):
    assert read_duration(text) == timedelta(milliseconds=milliseconds)


def test_keep_alive_times_are_seconds_and_may_carry_a_unit():
    built = settings(CYODA_KEEPALIVE_INTERVAL="3", CYODA_KEEPALIVE_TIMEOUT="4500ms")
    assert (built.keepalive_interval, built.keepalive_timeout) == (timedelta(seconds=3), timedelta(seconds=4.5))


@pytest.mark.parametrize(
    ("variable", "text", "problem"),
    [
        ("CYODA_HTTP_PORT", "eighty", '"eighty" is not an integer'),
        ("CYODA_HTTP_PORT", "65536", '"65536" is not an integer from 0 to 65535'),
        ("CYODA_HTTP_PORT", "1_000", '"1_000" is not an integer'),
        ("CYODA_HTTP_PORT", "٨٠", "is not an integer"),
        ("CYODA_STARTUP_TIMEOUT", "30", '"30" is not a duration such as 300ms, 90s or 1h30m'),
        ("CYODA_STARTUP_TIMEOUT", "-3s", "is not a duration"),
        ("CYODA_STARTUP_TIMEOUT", "0", '"0" must be longer than 0'),
        ("CYODA_STARTUP_TIMEOUT", "99999999999999h", "longer than any duration"),
        ("CYODA_SCHEDULER_ENABLED", "yes", '"yes" is not a boolean (true or false)'),
        ("CYODA_IAM_MODE", "JWT", '"JWT" is not one of mock, jwt'),
        ("CYODA_IAM_MOCK_KIND", "robot", '"robot" is not one of user, service, system'),
        ("CYODA_LOG_LEVEL", "loud", '"loud" is not one of debug, info, warn, error'),
        ("CYODA_CONTEXT_PATH", "api", '"api" is not a path such as /api'),
        ("CYODA_CONTEXT_PATH", "/api/../x", '"/api/../x" is not a path such as /api'),
        ("CYODA_CONTEXT_PATH", "/healthz", '"/healthz" is not free: /healthz is another part of the service'),
        ("CYODA_CONTEXT_PATH", "/v1/api/", '"/v1/api/" is not free: /v1 is another part of the service'),
        ("CYODA_STORAGE_BACKEND", "oracle", '"oracle" is not one of postgres, embedded, memory, sqlite'),
        ("STATEWRIGHT_HOST", "a b", '"a b" is not an address or a host name'),
        ("STATEWRIGHT_LOG_FORMAT", "a\nb", '"a\\nb" is not one of text, json'),
    ],
)
def test_a_malformed_value_is_refused_by_the_name_it_was_given(variable: str, text: str, problem: str):
    message = refusal(**{variable: text})
    assert message.startswith(f"{variable}: ")
    assert problem in message


@pytest.mark.parametrize(
    "variable", ["CYODA_HTTP_PORT", "CYODA_IAM_MODE", "CYODA_STARTUP_TIMEOUT", "CYODA_POSTGRES_URL"]
)
def test_a_variable_set_to_nothing_counts_as_unset(variable: str):
    assert settings(**{variable: ""}) == settings()


@pytest.mark.parametrize(("text", "path"), [("", ""), ("/", ""), ("/x/", "/x"), ("/a/b", "/a/b")])
def test_the_context_path_loses_its_trailing_slash_and_may_be_the_root(text: str, path: str):
    assert settings(CYODA_CONTEXT_PATH=text).context_path == path


@pytest.mark.parametrize(("word", "level"), [("DEBUG", "debug"), (" warning ", "warn"), ("Error", "error")])
def test_log_levels_in_any_case(word: str, level: str):
    assert settings(CYODA_LOG_LEVEL=word).log_level == level


@pytest.mark.parametrize(
    ("variable", "field", "default"),
    [
        ("CYODA_MAX_STATE_VISITS", "max_state_visits", 10),
        ("CYODA_SEARCH_MAX_SORT_KEYS", "search_max_sort_keys", 16),
        ("CYODA_STATS_GROUP_MAX", "stats_group_max", 10_000),
    ],
)
def test_limits_of_zero_or_less_restore_the_default(variable: str, field: str, default: int):
    assert getattr(settings(**{variable: "-1"}), field) == default
    assert getattr(settings(**{variable: "3"}), field) == 3


def test_a_pool_never_keeps_more_connections_than_it_may_have():
    assert settings(CYODA_POSTGRES_MAX_CONNS="2").postgres_min_conns == 2


@pytest.mark.parametrize(
    ("environment", "directory"),
    [
        ({"HOME": "/home/ada"}, "/home/ada/.local/share/statewright"),
        ({"HOME": "/home/ada", "XDG_DATA_HOME": "/data"}, "/data/statewright"),
        ({"HOME": "/home/ada", "XDG_DATA_HOME": "relative"}, "/home/ada/.local/share/statewright"),
        ({"HOME": "/home/ada", "XDG_DATA_HOME": "/data", "STATEWRIGHT_DATA_DIRECTORY": "/srv/sw"}, "/srv/sw"),
        ({"HOME": "/home/ada", "STATEWRIGHT_DATA_DIRECTORY": "~/sw"}, "/home/ada/sw"),
    ],
)
def test_where_the_embedded_server_keeps_its_data(environment: dict[str, str], directory: str):
    assert settings(**environment).data_directory == Path(directory)


# Secrets


def test_a_secret_shows_in_no_representation():
    built = settings(CYODA_METRICS_BEARER="s3cret", CYODA_POSTGRES_URL="postgres://u:s3cret@h/d")
    assert "s3cret" not in f"{built!r} {built} {built.metrics_bearer} {built.metrics_bearer!r}"


def test_a_secret_comes_from_the_file_that_is_named(tmp_path: Path):
    (tmp_path / "bearer").write_text("s3cret \t\r\n")
    assert settings(CYODA_METRICS_BEARER_FILE=str(tmp_path / "bearer")).metrics_bearer == Secret("s3cret")


def test_the_file_wins_over_the_plain_variable(tmp_path: Path):
    (tmp_path / "bearer").write_text("from file")
    built = settings(CYODA_METRICS_BEARER_FILE=str(tmp_path / "bearer"), CYODA_METRICS_BEARER="plain")
    assert built.metrics_bearer == Secret("from file")


def test_our_plain_variable_wins_over_a_file_of_the_dialect(tmp_path: Path):
    (tmp_path / "bearer").write_text("from file")
    built = settings(CYODA_METRICS_BEARER_FILE=str(tmp_path / "bearer"), STATEWRIGHT_METRICS_BEARER="ours")
    assert built.metrics_bearer == Secret("ours")


def test_an_empty_file_counts_as_unset(tmp_path: Path):
    (tmp_path / "bearer").write_text("\n")
    assert settings(CYODA_METRICS_BEARER_FILE=str(tmp_path / "bearer")).metrics_bearer is None


def test_an_unreadable_file_stops_the_start(tmp_path: Path):
    missing = tmp_path / "missing"
    assert refusal(CYODA_HMAC_SECRET_FILE=str(missing)) == (
        f'CYODA_HMAC_SECRET_FILE: cannot read "{missing}": No such file or directory'
    )


def test_settings_that_are_no_secrets_have_no_file():
    assert "unknown setting" in refusal(STATEWRIGHT_HTTP_PORT_FILE="/x")


@pytest.mark.parametrize(
    ("variable", "text"), [("CYODA_POSTGRES_URL", "mysql://u:s3cret@h/d"), ("CYODA_JWT_SIGNING_KEY", "s3cret")]
)
def test_a_malformed_secret_is_reported_without_its_text(variable: str, text: str):
    assert "s3cret" not in refusal(**{variable: text})


@given(st.text(), st.text())
def test_secrets_are_equal_when_their_texts_are(one: str, other: str):
    assert (Secret(one) == Secret(other)) == (one == other)


@pytest.mark.parametrize(
    "text",
    [PEM, PEM.replace("\n", "\\n"), f"\n{PEM}\n", PEM.replace("\n", "\\r\\n")],
    ids=["lines", "escaped", "framed", "crlf"],
)
def test_a_signing_key_may_be_written_as_pem(text: str):
    key = settings(CYODA_JWT_SIGNING_KEY=text).jwt_signing_key
    assert key is not None
    assert key.reveal() == PEM


def test_a_signing_key_may_be_base64_of_pem():
    encoded = "LS0tLS1CRUdJTiBQUklWQVRFIEtFWS0tLS0tCk1JSUUKLS0tLS1FTkQg\nUFJJVkFURSBLRVktLS0tLQ=="
    key = settings(CYODA_JWT_SIGNING_KEY=encoded).jwt_signing_key
    assert key is not None
    assert key.reveal() == PEM


def test_a_key_is_the_bytes_that_it_names_in_hex_and_else_its_own(tmp_path: Path):
    assert Secret("00ff").key_bytes() == b"\x00\xff"
    assert Secret("00f").key_bytes() == b"00f"
    (tmp_path / "key").write_bytes(b"\xfe\x01\xff")
    built = settings(CYODA_HMAC_SECRET_FILE=str(tmp_path / "key"))
    assert built.hmac_secret is not None
    assert built.hmac_secret.key_bytes() == b"\xfe\x01\xff"


def test_a_bearer_that_is_not_text_is_refused(tmp_path: Path):
    (tmp_path / "key").write_bytes(b"\xfe\x01\xff")
    assert "not UTF-8" in refusal(CYODA_METRICS_BEARER_FILE=str(tmp_path / "key"))


# Rules


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "10.1.2.3", "statewright.example.org"])
def test_mock_authentication_is_refused_where_other_machines_can_reach_it(address: str):
    assert refusal(STATEWRIGHT_HOST=address).startswith(f"STATEWRIGHT_HOST: {address} can be reached")


@pytest.mark.parametrize("address", ["127.0.0.1", "127.1.2.3", "::1", "[::1]", "localhost"])
def test_mock_authentication_may_listen_on_loopback(address: str):
    assert settings(STATEWRIGHT_HOST=address).host == address.strip("[]")


def test_mock_authentication_on_a_public_address_can_be_permitted():
    built = settings(STATEWRIGHT_HOST="0.0.0.0", STATEWRIGHT_ALLOW_MOCK_ON_PUBLIC_ADDRESS="true")
    assert built.host == "0.0.0.0"


def test_the_service_listens_on_loopback_unless_told_otherwise():
    assert jwt_settings().host == "127.0.0.1"
    assert jwt_settings(STATEWRIGHT_HOST="0.0.0.0").host == "0.0.0.0"


def test_jwt_mode_needs_a_signing_key_and_asks_for_it_in_the_dialect_of_the_author():
    assert refusal(CYODA_IAM_MODE="jwt") == "CYODA_JWT_SIGNING_KEY: must be set because CYODA_IAM_MODE is jwt"
    assert refusal(STATEWRIGHT_IAM_MODE="jwt").startswith("STATEWRIGHT_JWT_SIGNING_KEY: ")


def test_a_demand_for_jwt_refuses_mock_mode():
    assert refusal(CYODA_REQUIRE_JWT="true") == "CYODA_IAM_MODE: must be jwt because CYODA_REQUIRE_JWT is true"


@pytest.mark.parametrize(
    ("given_half", "missing"),
    [
        ("CYODA_BOOTSTRAP_CLIENT_ID", "CYODA_BOOTSTRAP_CLIENT_SECRET"),
        ("STATEWRIGHT_BOOTSTRAP_CLIENT_SECRET", "STATEWRIGHT_BOOTSTRAP_CLIENT_ID"),
    ],
)
def test_half_a_bootstrap_client_is_refused_by_its_missing_half(given_half: str, missing: str):
    with pytest.raises(SettingsError, match=f"^{missing}: must be set because {given_half} is$"):
        jwt_settings(**{given_half: "x"})


def test_half_a_bootstrap_client_does_not_matter_in_mock_mode():
    assert settings(CYODA_BOOTSTRAP_CLIENT_ID="x").iam_mode == "mock"


@pytest.mark.parametrize(("secret", "accepted"), [("x" * 72, True), ("x" * 73, False), ("ü" * 37, False)])
def test_a_bootstrap_secret_has_at_most_72_bytes(secret: str, accepted: bool):
    pair = {"CYODA_BOOTSTRAP_CLIENT_ID": "x", "CYODA_BOOTSTRAP_CLIENT_SECRET": secret}
    if accepted:
        assert jwt_settings(**pair).bootstrap_client_secret == Secret(secret)
        return
    with pytest.raises(SettingsError, match=r"^CYODA_BOOTSTRAP_CLIENT_SECRET: the value is longer than 72 bytes$"):
        jwt_settings(**pair)


def test_a_bootstrap_client_needs_a_tenant():
    with pytest.raises(SettingsError, match=r"^CYODA_BOOTSTRAP_TENANT_ID: must not be empty$"):
        jwt_settings(CYODA_BOOTSTRAP_CLIENT_ID="x", CYODA_BOOTSTRAP_CLIENT_SECRET="y", CYODA_BOOTSTRAP_TENANT_ID="")


def test_a_bootstrap_client_may_be_left_without_roles():
    assert jwt_settings(CYODA_BOOTSTRAP_ROLES="").bootstrap_roles == ()


def test_mock_roles_are_a_comma_list():
    assert settings(CYODA_IAM_MOCK_ROLES=" A,,B ").iam_mock_roles == ("A", "B")


def test_mock_roles_that_name_nobody_leave_the_default_with_a_warning():
    built = settings(CYODA_IAM_MOCK_ROLES=" , ")
    assert built.iam_mock_roles == ("ROLE_ADMIN", "ROLE_M2M")
    assert built.warnings == ("CYODA_IAM_MOCK_ROLES names no role; the default roles stay",)


def test_metrics_that_require_authentication_need_a_bearer():
    assert refusal(CYODA_METRICS_REQUIRE_AUTH="true").startswith("CYODA_METRICS_BEARER: must be set")


def test_the_postgres_backend_needs_a_url():
    assert refusal(CYODA_STORAGE_BACKEND="postgres") == (
        "CYODA_POSTGRES_URL: must be set because CYODA_STORAGE_BACKEND is postgres"
    )


@pytest.mark.parametrize(
    ("environment", "storage"),
    [
        ({}, "embedded"),
        ({"CYODA_POSTGRES_URL": "postgresql://h/d"}, "postgres"),
        ({"CYODA_STORAGE_BACKEND": "postgres", "CYODA_POSTGRES_URL": "postgres://h/d"}, "postgres"),
        ({"CYODA_STORAGE_BACKEND": "memory"}, "embedded"),
        ({"CYODA_STORAGE_BACKEND": "sqlite", "CYODA_POSTGRES_URL": "postgres://h/d"}, "embedded"),
    ],
)
def test_which_storage_is_used(environment: dict[str, str], storage: str):
    assert settings(**environment).storage == storage


def test_another_backend_than_postgres_is_replaced_with_a_warning():
    assert settings(CYODA_STORAGE_BACKEND="memory").warnings == (
        "CYODA_STORAGE_BACKEND is memory: the embedded PostgreSQL server is used in its place",
    )


def test_two_listeners_of_one_address_need_two_ports():
    assert refusal(CYODA_GRPC_PORT="8080") == "CYODA_GRPC_PORT: is the same as STATEWRIGHT_HTTP_PORT"
    assert settings(CYODA_GRPC_PORT="0", CYODA_HTTP_PORT="0").grpc_port == 0


@pytest.mark.parametrize("address", ["127.0.0.1", "localhost", "0.0.0.0", "::"])
def test_the_admin_listener_and_the_nodes_need_ports_of_their_own(address: str):
    admin = {"STATEWRIGHT_ADMIN_BIND_ADDRESS": address, "STATEWRIGHT_ADMIN_PORT": "8080"}
    assert refusal(**admin) == "STATEWRIGHT_ADMIN_PORT: is the same as STATEWRIGHT_HTTP_PORT"
    assert refusal(STATEWRIGHT_NODE_PORT="9091") == "STATEWRIGHT_NODE_PORT: is the same as STATEWRIGHT_ADMIN_PORT"


def test_listeners_of_two_addresses_may_have_one_port():
    assert settings(STATEWRIGHT_ADMIN_BIND_ADDRESS="127.0.0.2", STATEWRIGHT_ADMIN_PORT="8080").admin_port == 8080


@pytest.mark.parametrize(
    "name", ["NODE_ID", "BOOTSTRAP_TENANT_ID", "JWT_ISSUER", "IAM_MOCK_ROLES", "DATA_DIRECTORY", "METRICS_BEARER"]
)
def test_what_is_no_utf_8_is_refused(name: str):
    """Python keeps such bytes as lone surrogates, which neither the database nor a token takes."""
    assert refusal(**{f"STATEWRIGHT_{name}": "a\udcff"}).endswith("is not UTF-8 text")


@pytest.mark.parametrize(
    "name", ["BOOTSTRAP_TENANT_ID", "BOOTSTRAP_USER_ID", "STEPS_OPEN_TENANT", "IAM_PLATFORM_TENANT"]
)
def test_ids_of_tenants_and_users_are_no_longer_than_tokens_may_have_them(name: str):
    variable = f"STATEWRIGHT_{name}"
    assert refusal(**{variable: "é" * 513}).startswith(f"{variable}: ")
    settings(**{variable: "é" * 512})


def test_members_get_more_time_than_one_probe():
    assert "must be longer than" in refusal(CYODA_KEEPALIVE_TIMEOUT="10")


def test_a_short_hmac_secret_is_doubted():
    assert "shorter than 32 bytes" in settings(CYODA_HMAC_SECRET="ab" * 31).warnings[0]
    assert settings(CYODA_HMAC_SECRET="ab" * 32).warnings == ()


def test_a_key_that_signs_for_less_than_a_month_is_doubted():
    assert "under 30 days" in jwt_settings(CYODA_IAM_KEYPAIR_DEFAULT_VALIDITY_DAYS="29").warnings[0]


# CORS


@pytest.mark.parametrize(
    "origins",
    [
        "https://app.example.org", "http://localhost:3000", "https://xn--bcher-kva.example", "http://[::1]:8080",
        "http://127.0.0.1,https://a.example:8443",
    ],
)  # fmt: skip
def test_origins_as_browsers_send_them_are_allowed(origins: str):
    assert settings(CYODA_CORS_ALLOWED_ORIGINS=origins).cors_allowed_origins == tuple(origins.split(","))


@pytest.mark.parametrize(
    "origin",
    [
        "", "null", "*", "https://*.example.org", "example.org", "ftp://example.org", "HTTPS://example.org", "https://",
        "https://Example.org", "http://0x7f.1", "https://bücher.example", "https://user@example.org",
        "https://example.org/", "https://example.org/x", "https://example.org?x", "https://example.org#x",
        "https://example.org:443", "http://example.org:80", "http://example.org:0", "http://example.org:65536",
        "http://example.org:", "http://[::1", "http://[0:0::1]", "http://a..b", "http://a b",
    ],
)  # fmt: skip
def test_an_origin_that_no_browser_sends_is_refused(origin: str):
    assert refusal(CYODA_CORS_ALLOWED_ORIGINS=f"https://ok.example,{origin}").startswith("CYODA_CORS_ALLOWED_ORIGINS: ")


def test_the_wildcard_stands_alone_and_earns_a_warning():
    built = settings(CYODA_CORS_ALLOWED_ORIGINS="*")
    assert built.cors_allowed_origins == ("*",)
    assert "every web site" in built.warnings[0]


# Parts of the settings


def test_a_migration_needs_none_of_the_secrets_of_the_service():
    built = Settings.for_migration(
        {"CYODA_POSTGRES_URL": "postgres://h/d", "CYODA_IAM_MODE": "jwt", "CYODA_JWT_SIGNING_KEY_FILE": "/not/mounted"}
    )
    assert built.storage == "postgres"


def test_a_migration_is_strict_about_the_storage():
    with pytest.raises(SettingsError, match="CYODA_POSTGRES_URL"):
        Settings.for_migration({"CYODA_STORAGE_BACKEND": "postgres"})


def test_one_setting_can_be_read_whatever_the_others_say():
    assert Settings.read_partial({"CYODA_ADMIN_PORT": "1", "CYODA_HTTP_PORT": "x"}, ["admin_port"]).admin_port == 1


# Documentation


@pytest.mark.parametrize("name", SETTINGS)
def test_every_setting_stands_in_the_reference(name: str):
    assert row_of(name) in REFERENCE.read_text("utf-8").splitlines()


def test_the_reference_has_no_other_settings():
    rows = [line for line in REFERENCE.read_text("utf-8").splitlines() if line.startswith("| `STATEWRIGHT_")]
    assert sorted(rows) == sorted(row_of(name) for name in SETTINGS)


def row_of(name: str) -> str:
    """The row of the reference table; to be copied there when a test says that it is missing."""
    setting, default = SETTINGS[name], getattr(Settings(), name)
    shown = "–" if default in (None, "", ()) else f"`{setting.reader.show(default)}`"
    secret = " (`_FILE`)" if setting.reader.is_secret else ""
    aliases = [f"`{one}`" for one in list_variables(name) if not one.startswith("STATEWRIGHT_") and one[-5:] != "_FILE"]
    alias = ", ".join(aliases) or "–"
    shape = setting.reader.shape.replace("|", "\\|")
    return f"| `STATEWRIGHT_{name.upper()}`{secret} | {shape} | {shown} | {setting.meaning} | {alias} |"


@pytest.mark.parametrize("name", ["URL", "TOKEN", "CA", "CLIENT_SECRET_FILE", "COMPUTE_ENDPOINT", "COMPUTE_TAGS"])
def test_variables_of_clients_and_nodes_are_no_misspelt_settings(name: str):
    assert Settings.from_environment({f"STATEWRIGHT_{name}": "x"}).warnings == ()


@pytest.mark.parametrize("text", ["short", "00" * 31, "00" * 32 + ",zz", "A" * 43, ",", "00" * 33])
def test_an_encryption_key_is_32_bytes_and_never_shown(text: str):
    with pytest.raises(SettingsError, match=r"^STATEWRIGHT_ENCRYPTION_KEY: the value ") as refusal:
        Settings.from_environment({"STATEWRIGHT_ENCRYPTION_KEY": text})
    assert len(text) < 5 or text not in str(refusal.value)


def test_encryption_keys_are_hex_or_base64_with_commas_or_line_ends_between_them():
    keys = ["00" * 32, "_" * 42 + "8=", "/" * 42 + "8="]
    for separator in (",", "\n", " , "):
        settings = Settings.from_environment({"STATEWRIGHT_ENCRYPTION_KEY": separator.join(keys)})
        assert settings.encryption_key is not None
        assert split_encryption_keys(settings.encryption_key) == [bytes(32), b"\xff" * 32, b"\xff" * 32]
