"""The ``statewright`` program (docs/reference/cli.md, docs/reference/service.md#start-and-stop).

Without a command it serves, so that a launcher that knows only environment variables can run it. Exit codes: 0 is a
clean stop, 1 a failure, 2 a command line that cannot be understood or a stop forced by a second signal. A failure is
one line on stderr. What a command needs is imported by that command: ``--help`` and ``health`` must answer at once.
"""

import gc
import http.client
import json
import os
import platform
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from enum import StrEnum
from importlib import metadata
from typing import TYPE_CHECKING, Annotated, Final

import typer

from statewright.cli import (
    entities,
    environment,
    flows,
    identity,
    index,
    models,
    ops,
    playbooks,
    steps,
    tools,
    transfer,
)
from statewright.cli import help as help_pages
from statewright.cli.client import add_command, explain, fail, require_server
from statewright.cli.workflows import workflows

if TYPE_CHECKING:
    from statewright.settings import Settings

_HEALTH_TIMEOUT_S: Final = 2.0
"""Seconds."""

_LOADING_THRESHOLDS: Final = (100_000, 50, 1_000)
"""For the collection of garbage until the service is ready and sets its own (app/service.py): most of what is imported
and built stays, and with the usual ones a quarter of a start went into looking at it again and again.
"""

program = typer.Typer(
    name="statewright",
    help="Entities, versioned models and transactional workflows on PostgreSQL. Without a command: serve.",
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    add_completion=False,
)

program.add_typer(models.models, name="models")
program.add_typer(workflows, name="workflows")
program.add_typer(entities.entities, name="entities")
program.add_typer(entities.transitions, name="transitions")
program.add_typer(entities.tasks, name="tasks")
program.command()(entities.audit)
program.add_typer(index.index, name="index")
program.add_typer(steps.steps, name="steps")
program.add_typer(flows.flows, name="flows")
program.add_typer(playbooks.playbooks, name="playbooks")
program.add_typer(identity.clients, name="clients")
program.add_typer(identity.keys, name="keys")
program.add_typer(identity.providers, name="providers")
program.add_typer(ops.ops, name="ops")
program.command(name="help")(help_pages.show_help)
program.command(name="init")(environment.init)
program.command()(tools.tools)
add_command(program, index.explain_search)
add_command(program, entities.prune)
steps.steps.command()(entities.purge)
add_command(program, transfer.export)
add_command(program, transfer.import_, name="import")


def main() -> None:
    """The entry point of the installed program."""
    program(prog_name="statewright")


@program.callback(invoke_without_command=True)
def _program(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", "-v", help="Show the version and exit.")] = False,
) -> None:
    if version:
        show_version()
        raise typer.Exit
    if context.invoked_subcommand is None:
        serve(None)


@program.command()
def serve(
    workers: Annotated[
        int | None, typer.Option(min=1, max=256, help="Processes that share the ports.", show_default=False)
    ] = None,
) -> None:
    """Start the service. Everything is configured by environment variables."""
    with _report_failures():
        from msgspec.structs import replace

        from statewright.settings import Settings

        _add_files_to_environment()
        settings = Settings.from_environment(os.environ)
        settings = replace(settings, workers=workers or settings.workers)
        _configure_logs(settings)
        gc.set_threshold(*_LOADING_THRESHOLDS)
        if settings.workers > 1:
            with require_server("serve"):
                from statewright.supervisor import serving

            raise typer.Exit(_run(serving.serve(settings)))
        with require_server("serve"):
            from statewright import app

        raise typer.Exit(_run(app.serve(settings)))


@program.command()
def migrate(
    timeout: Annotated[str, typer.Option(help="Give up after this time.", metavar="DURATION")] = "5m",
) -> None:
    """Apply pending database migrations and exit. Safe beside running nodes."""
    limit = _parse_duration(timeout)
    with _report_failures():
        from statewright.settings import Settings

        settings = Settings.for_migration(os.environ)
        _configure_logs(settings)
        with require_server("migrate"):
            from statewright import app

        raise typer.Exit(_run(app.apply_migrations(settings, limit)))


@program.command()
def health() -> None:
    """Succeed, silently, if the service on this machine is ready."""
    with _report_failures():
        from statewright.settings import Settings

        port = Settings.read_partial(os.environ, ["admin_port"]).admin_port
        problem = _find_readiness_problem(port)
    if problem is not None:
        fail(problem)


@program.command(name="version")
def show_version() -> None:
    """Show the version and exit."""
    try:
        version = metadata.version("statewright")
    except metadata.PackageNotFoundError:
        version = "(not installed: running from sources)"
    typer.echo(f"statewright {version}, Python {platform.python_version()}")


@program.command()
def openapi() -> None:
    """Print the OpenAPI document of the REST API as JSON."""
    with _report_failures():
        with require_server("openapi"):
            from statewright.api.http.openapi import build_openapi_document

        typer.echo(json.dumps(build_openapi_document(), indent=2, ensure_ascii=False))


class SchemaName(StrEnum):
    """Whose documents a schema describes."""

    WORKFLOW = "workflow"
    STEPS = "steps"
    PLAYBOOK = "playbook"


@program.command()
def schema(name: Annotated[SchemaName, typer.Argument(help="What is written.", show_default=False)]) -> None:
    """Print the JSON Schema of workflows, steps or playbooks, by which editors check and complete them."""
    with _report_failures(), require_server("schema"):
        match name:
            case SchemaName.WORKFLOW:
                from statewright.workflow.json_schema import build_workflow_schema as build
            case SchemaName.STEPS:
                from statewright.api.http.openapi.step_schemas import build_step_schema as build
            case SchemaName.PLAYBOOK:
                from statewright.playbooks.json_schema import build_playbook_schema as build
        typer.echo(json.dumps(build(), indent=2, ensure_ascii=False))


@program.command()
def node(
    target: Annotated[str, typer.Argument(help="Where the calculation node is defined.", metavar="MODULE:APP")],
    endpoint: Annotated[
        str | None,
        typer.Option(
            help="gRPC address of the service. \\[env: STATEWRIGHT_COMPUTE_ENDPOINT] \\[default: localhost:9090]",
            metavar="HOST:PORT",
            show_default=False,
        ),
    ] = None,
    url: Annotated[
        str | None,
        typer.Option(
            "--url",
            "--api",
            help="Address of the service, for callbacks and jobs. \\[env: STATEWRIGHT_URL]",
            metavar="URL",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Run a calculation node that was written with the SDK.

    It shows who it is by STATEWRIGHT_TOKEN, or by STATEWRIGHT_CLIENT_ID and STATEWRIGHT_CLIENT_SECRET (or …_FILE).
    """
    with _report_failures():
        _add_files_to_environment()
        from statewright.sdk import cli as sdk

        raise typer.Exit(sdk.run(target, endpoint=endpoint, api=url))


def _run(work: Coroutine[object, object, int]) -> int:
    import uvloop

    return uvloop.run(work)


def _configure_logs(settings: "Settings") -> None:
    from statewright.telemetry import logs

    logs.configure(settings.log_level, settings.log_format)


def _parse_duration(text: str) -> timedelta:
    from statewright.settings import read_duration

    try:
        return read_duration(text)
    except ValueError as malformed:
        raise typer.BadParameter(f'"{text}" {malformed}', param_hint="--timeout") from None


def _find_readiness_problem(port: int) -> str | None:
    """Why the service is not ready, as seen from this machine; ``None`` if it is. Proxies are not asked."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_HEALTH_TIMEOUT_S)
    try:
        connection.request("GET", "/readyz")
        status = connection.getresponse().status
    except (OSError, http.client.HTTPException) as unreachable:
        return f"http://127.0.0.1:{port}/readyz: {explain(unreachable)}"
    finally:
        connection.close()
    return None if status == 200 else f"http://127.0.0.1:{port}/readyz: status {status}"


def _add_files_to_environment() -> None:
    """What files of variables say becomes part of the environment, for the processes that this one starts, too."""
    from statewright.cli.environment import read_environment

    os.environ.update(read_environment(os.environ))


@contextmanager
def _report_failures() -> Iterator[None]:
    """Ends the program with code 1 and one line when the block fails; the traceback is for the log, at level debug."""
    try:
        yield
    except (typer.Exit, typer.BadParameter):
        raise
    except KeyboardInterrupt:
        raise typer.Exit(0) from None
    except Exception as failure:  # the outermost handler: no failure may show an operator a traceback
        causes = _list_causes(failure)
        from statewright.telemetry import logs

        if logs.get_level() == "debug":
            logs.logger(__name__).exception("command_failed")
        fail("; ".join(causes))


def _list_causes(failure: BaseException) -> Sequence[str]:
    """What happened, in the words of the exceptions; a class name stands in where there are none."""
    if isinstance(failure, BaseExceptionGroup):
        return [cause for part in failure.exceptions for cause in _list_causes(part)]
    text = " ".join(str(failure).split())
    is_expected = isinstance(failure, ValueError | OSError | ImportError) or type(failure).__module__ != "builtins"
    name = type(failure).__name__
    if not text:
        return [name]
    if isinstance(failure, OSError):
        return [explain(failure)]
    return [text if is_expected else f"{name}: {text}"]
