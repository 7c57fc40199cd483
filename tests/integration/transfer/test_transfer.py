"""Entities to a file and back: exact, at one instant, restartable (docs/export-and-import.md)."""

import gzip
import json
import signal
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from typer.testing import Result

from statewright import Client, Refused, RetryPolicy, Unreachable
from statewright.cli import main
from statewright.cli.transfer import exporting, files, importing
from statewright.sdk.endpoint import parse_address
from statewright.sdk.http import HttpTransport
from statewright.sdk.operations.calls import Call, HttpResponse
from statewright.sdk.tokens import make_token_source
from tests.builders import SAMPLE, Json, a_workflow, automated
from tests.commands import CommandRunner
from tests.e2e.program import EXECUTABLE, environment
from tests.service import Api, done, eventually

PRIZE = "prize/1"
EXACT = [
    '{"n":12345678901234567890123456789012345678901234567890,"t":"a"}',
    '{"n":0.1000000000000000000000000000000000000000000000000001,"t":"b"}',
    '{"n":1.10,"t":"ä \\"quoted\\" \\\\ / \\u2028"}',
    '{"n":9007199254740993,"t":null}',
    '{"n":-1e-30,"t":"€"}',
]


class Interrupted(Exception):
    """Somebody has pulled the plug."""


def a_session(api: Api) -> Client:
    """One that soon tries again."""
    return Client(api.url, token=api.token, retry=RetryPolicy(first_pause_s=0.01, repeats_writes=True))


@pytest.fixture
def session(api: Api) -> Iterator[Client]:
    session = a_session(api)
    yield session
    session.close()


def no_progress(_entities: int, _bytes: int) -> None:
    """Nobody watches."""


def after(calls: int, happens: Callable[[], None]) -> Callable[[int, int], None]:
    """Progress that has something happen when it was told so often."""
    told = []

    def tell(_entities: int, _bytes: int) -> None:
        told.append(1)
        if len(told) == calls:
            happens()

    return tell


def pull_the_plug() -> None:
    raise Interrupted


def exported(session: Client, path: Path, tell: exporting.Progress = no_progress, model: str = PRIZE) -> list[bytes]:
    """The lines of an export."""
    exporting.export_entities(session, model, path, instant=None, on_progress=tell)
    return lines_of(path)


def lines_of(path: Path) -> list[bytes]:
    with files.open_lines(path) as lines:
        return list(lines)


def imported(
    session: Client, path: Path, tell: importing.Progress = no_progress, *, batch: int = 10, name: str | None = None
) -> importing.ImportResult:
    name = name or importing.compute_import_id(path, PRIZE, lambda _count: None)
    return importing.Importer(session, "prize", 1, import_id=name, batch=batch).run(path, tell)


def prizes(count: int) -> list[Json]:
    return [SAMPLE | {"year": 1000 + n} for n in range(count)]


def a_file(path: Path, documents: list[Json]) -> Path:
    text = "".join(json.dumps(document) + "\n" for document in documents).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return path


def years(api: Api) -> list[int]:
    return sorted(entity["data"]["year"] for entity in done(api.get(f"/entity/{PRIZE}?pageSize=10000")))


@pytest.mark.parametrize("name", ["prizes.ndjson", "prizes.ndjson.gz"])
def test_what_is_exported_and_imported_is_the_same_to_the_last_digit(
    api: Api, session: Client, tmp_path: Path, name: str
) -> None:
    api.a_model(model="exact/1", sample='{"n":1,"t":"a"}')
    done(api.post("/model/exact/1/changeLevel/TYPE"))
    done(api.post("/entity/JSON/exact/1", "[" + ",".join(EXACT) + "]"))
    lines = exported(session, tmp_path / name, model="exact/1")
    assert sorted(json.loads(line)["meta"]["id"] for line in lines) == [json.loads(x)["meta"]["id"] for x in lines]
    api.a_model(model="copy/1", sample='{"n":1,"t":"a"}')
    done(api.post("/model/copy/1/changeLevel/TYPE"))
    importer = importing.Importer(session, "copy", 1, import_id="copy", batch=2)
    assert importer.run(tmp_path / name, no_progress).created == len(EXACT)
    documents = [
        sorted(line.partition(b'"data":')[2].partition(b',"meta":')[0] for line in found)
        for found in (lines, exported(session, tmp_path / f"again-{name}", model="copy/1"))
    ]
    assert documents[0] == documents[1]
    digits = b"".join(documents[0])
    assert b"12345678901234567890123456789012345678901234567890" in digits
    assert b"0.1000000000000000000000000000000000000000000000000001" in digits


def test_an_export_shows_one_instant_whatever_happens_meanwhile(api: Api, session: Client, tmp_path: Path) -> None:
    api.a_model()
    [result] = done(api.post(f"/entity/JSON/{PRIZE}", prizes(90)))
    ids = sorted(result["entityIds"])

    def meanwhile() -> None:
        api.update(ids[-1], SAMPLE | {"year": 7})
        done(api.delete(f"/entity/{ids[-2]}"))
        done(api.post(f"/entity/JSON/{PRIZE}", prizes(30)))

    lines = exported(session, tmp_path / "out", after(1, meanwhile))
    found = [json.loads(line) for line in lines]
    assert [envelope["meta"]["id"] for envelope in found] == ids
    assert sorted(envelope["data"]["year"] for envelope in found) == [1000 + n for n in range(90)]
    assert len({envelope["meta"]["pointInTime"] for envelope in found}) == 1


@pytest.mark.parametrize("name", ["out.ndjson", "out.ndjson.gz"])
def test_an_export_that_was_broken_off_goes_on_at_its_instant(
    api: Api, session: Client, tmp_path: Path, name: str
) -> None:
    api.a_model()
    done(api.post(f"/entity/JSON/{PRIZE}?transactionWindow=1000", prizes(180)))
    path, part = tmp_path / name, tmp_path / f"{name}.part"
    with pytest.raises(Interrupted):
        exported(session, path, after(1, pull_the_plug))
    assert not path.exists()
    half = b'{"type":"ENTITY","data":{"ye'
    with part.open("ab") as file:  # the machine has lost power in the middle of a line
        file.write(gzip.compress(half)[:-9] if name.endswith(".gz") else half)
    done(api.post(f"/entity/JSON/{PRIZE}", prizes(20)))
    again = exporting.export_entities(session, PRIZE, path, instant=None, on_progress=no_progress)
    assert again.resumed
    assert not part.exists()
    found = [json.loads(line) for line in lines_of(path)]
    assert len({envelope["meta"]["id"] for envelope in found}) == len(found) == 180
    assert {envelope["meta"]["pointInTime"] for envelope in found} == {again.instant}
    repeated = exporting.export_entities(
        session, PRIZE, tmp_path / "repeated", instant=again.instant, on_progress=no_progress
    )
    assert repeated.entities == 180
    assert lines_of(tmp_path / "repeated") == lines_of(path)


def test_an_export_overwrites_nothing_and_takes_no_strange_file_for_its_own(
    api: Api, session: Client, tmp_path: Path
) -> None:
    api.a_model()
    assert exported(session, tmp_path / "empty") == []
    with pytest.raises(FileExistsError):
        exported(session, tmp_path / "empty")
    (tmp_path / "out.part").write_text("dear diary\n")
    with pytest.raises(ValueError, match="is no unfinished export"):
        exported(session, tmp_path / "out")
    assert (tmp_path / "out.part").read_text() == "dear diary\n"


@pytest.mark.parametrize("name", ["in.ndjson", "in.ndjson.gz"])
def test_an_import_that_was_broken_off_goes_on_without_loss_or_duplicates(
    api: Api, session: Client, tmp_path: Path, name: str
) -> None:
    api.a_model()
    path = a_file(tmp_path / name, prizes(95))
    with pytest.raises(Interrupted):
        imported(session, path, after(3, pull_the_plug))
    assert len(years(api)) == 30
    done_now = imported(session, path)
    assert (done_now.created, done_now.before) == (65, 30)
    assert years(api) == [1000 + n for n in range(95)]
    assert imported(session, path).created == 0
    assert imported(session, path, name="another").created == 95


class Forgetful:
    """A way to the service on which the answer to one request is lost that it has carried out."""

    def __init__(self, transport: HttpTransport, lose: int) -> None:
        self._transport = transport
        self._lose = lose

    def send(self, call: Call) -> HttpResponse:
        answer = self._transport.send(call)
        if call.path.startswith("/entity/JSON"):
            self._lose -= 1
            if self._lose == 0:
                raise Unreachable("the answer is lost")
        return answer

    async def send_async(self, call: Call) -> HttpResponse:
        raise NotImplementedError


def test_a_batch_whose_answer_was_lost_is_not_imported_again(api: Api, tmp_path: Path) -> None:
    api.a_model()
    transport = HttpTransport(parse_address(api.url), make_token_source(api.token))
    session = Client.over(Forgetful(transport, lose=2), retry=RetryPolicy(first_pause_s=0.01, repeats_writes=True))
    assert imported(session, a_file(tmp_path / "in", prizes(35))).created == 35
    transport.close()
    assert years(api) == [1000 + n for n in range(35)]


def test_two_who_import_the_same_file_import_it_once(api: Api, tmp_path: Path) -> None:
    api.a_model()
    path = a_file(tmp_path / "in", prizes(120))

    def run(_: int) -> int:
        session = a_session(api)
        try:
            return imported(session, path).created
        finally:
            session.close()

    with ThreadPoolExecutor(2) as processes:
        list(processes.map(run, range(2)))
    assert years(api) == [1000 + n for n in range(120)]


def test_a_line_that_is_refused_is_named_and_its_batch_left_out(api: Api, session: Client, tmp_path: Path) -> None:
    api.a_model()
    path = a_file(tmp_path / "in", [*prizes(14), {"year": "soon"}, *prizes(6)])
    with pytest.raises(importing.LineRefused, match=r"line 15: .*INCOMPATIBLE_TYPE"):
        imported(session, path, name="mine")
    assert len(years(api)) == 10
    a_file(path, prizes(21))
    assert imported(session, path, name="mine").created == 11
    assert years(api) == [1000 + n for n in range(21)]
    path.write_text('{"year": 1}\n\n[1]\n{"year":\n')
    with pytest.raises(importing.LineRefused, match="line 3: no JSON object"):
        imported(session, path)


def test_imported_entities_run_through_their_workflow(api: Api, session: Client, tmp_path: Path) -> None:
    api.a_model(a_workflow(NEW=[automated("TAKE", to="TAKEN")], TAKEN=[]))
    imported(session, a_file(tmp_path / "in", prizes(70)), batch=999)
    assert {entity["meta"]["state"] for entity in done(api.get(f"/entity/{PRIZE}?pageSize=100"))} == {"TAKEN"}


def test_a_model_that_does_not_exist_is_told_as_it_is(api: Api, session: Client, tmp_path: Path) -> None:
    with pytest.raises(Refused, match="MODEL_NOT_FOUND"):
        exported(session, tmp_path / "out")
    with pytest.raises(importing.LineRefused, match="MODEL_NOT_FOUND"):
        imported(session, a_file(tmp_path / "in", prizes(1)))


# The commands.


def run(api: Api, *arguments: str) -> Result:
    return CommandRunner().invoke(main.program, [*arguments, "--url", api.url, "--token", api.token or ""])


def test_the_commands_export_and_import(api: Api, tmp_path: Path) -> None:
    api.a_model()
    done(api.post(f"/entity/JSON/{PRIZE}", prizes(3)))
    file = str(tmp_path / "out.ndjson.gz")
    told = run(api, "export", "prize", "1", file)
    assert told.exit_code == 0, told.output
    assert "3 entities as of 20" in told.stdout
    api.a_model(model="copy/1")
    assert "3 entities created" in run(api, "import", "copy", "1", file).stdout
    assert "0 entities created; 3 lines had been imported before" in run(api, "import", "copy", "1", file).stdout
    assert "3 entities created" in run(api, "import", "copy", "1", file, "--again").stdout
    assert done(api.get("/entity/stats/copy/1"))["count"] == 6
    edited = tmp_path / "edited.ndjson"
    edited.write_text('{"year": 1}\n', "utf-8-sig")
    assert "1 entities created" in run(api, "import", "copy", "1", str(edited)).stdout


def test_an_export_to_standard_output_is_what_the_file_would_be(
    api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.a_model()
    done(api.post(f"/entity/JSON/{PRIZE}", prizes(3)))
    monkeypatch.chdir(tmp_path)
    assert run(api, "export", PRIZE, "out").exit_code == 0
    instant = json.loads(Path("out").read_text().splitlines()[0])["meta"]["pointInTime"]
    told = run(api, "export", PRIZE, "-", "--point-in-time", instant)
    assert (told.stdout, told.exit_code) == (Path("out").read_text(), 0)
    assert f"3 entities as of {instant} written to standard output" in told.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_failure_is_one_line_that_says_how_to_go_on(api: Api, tmp_path: Path) -> None:
    api.a_model()
    path = a_file(tmp_path / "in", [SAMPLE, {"year": "soon"}])
    told = run(api, "import", "prize", "1", str(path))
    assert told.exit_code == 1
    [line] = [line for line in told.stderr.splitlines() if line.startswith("error:")]
    name = line.rpartition("--resume ")[2]
    a_file(path, prizes(2))
    assert "2 entities created" in run(api, "import", "prize", "1", str(path), "--resume", name).stdout
    refused = CommandRunner().invoke(main.program, ["export", "prize", "1", str(tmp_path / "x"), "--url", api.url])
    assert refused.exit_code == 1
    assert "UNAUTHORIZED" in refused.stderr


def test_an_import_that_is_killed_goes_on(api: Api, tmp_path: Path) -> None:
    """The program as a process, and SIGKILL while batches are on their way."""
    api.a_model()
    path = a_file(tmp_path / "in", prizes(3000))
    command = [str(EXECUTABLE), "import", "prize", "1", str(path), "--batch", "20", "--url", api.url]
    variables = environment(tmp_path, {"STATEWRIGHT_API_TOKEN": api.token or ""})
    process = subprocess.Popen(command, env=variables, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    eventually(lambda: done(api.get(f"/entity/stats/{PRIZE}"))["count"] >= 100, within_s=60)
    process.send_signal(signal.SIGKILL)
    process.wait(30)
    assert done(api.get(f"/entity/stats/{PRIZE}"))["count"] < 3000
    again = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=120, check=False)
    assert again.returncode == 0, again.stderr
    assert years(api) == [1000 + n for n in range(3000)]
