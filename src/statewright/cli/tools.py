"""``statewright tools``: a worker that does the usual kinds of tasks of playbooks (docs/guides/tools.md)."""

import os
from datetime import timedelta
from pathlib import Path
from typing import Annotated

import typer

from statewright.cli.client import fail, report_failures
from statewright.cli.environment import read_environment


def tools(
    kinds: Annotated[
        str, typer.Option(help="Of postgres, duckdb, http, python and shell, separated by commas.", metavar="KINDS")
    ] = "postgres,duckdb,http",
    url: Annotated[
        str | None,
        typer.Option(help="Address of the service. \\[env: STATEWRIGHT_URL]", metavar="URL", show_default=False),
    ] = None,
    env: Annotated[
        list[str] | None,
        typer.Option(help="Variable of the environment that tasks see; may be given often.", metavar="NAME"),
    ] = None,
    files: Annotated[
        list[Path] | None,
        typer.Option(help="Directory that DuckDB may read and write; may be given often.", metavar="DIRECTORY"),
    ] = None,
    credentials: Annotated[
        Path | None,
        typer.Option(
            help="Directory with a file for each credential of the worker's own.",
            metavar="DIRECTORY",
            show_default=False,
        ),
    ] = None,
    open_duckdb: Annotated[
        bool, typer.Option("--open-duckdb", help="Let DuckDB read and write everything, and load extensions.")
    ] = False,
    concurrency: Annotated[int, typer.Option(min=1, max=64, help="Pipelines at a time.")] = 4,
    time_limit: Annotated[float, typer.Option(min=0.1, max=86_400, help="Seconds that a task may take.")] = 300,
    cpu_limit: Annotated[int, typer.Option(min=1, max=86_400, help="Seconds of processor time of each process.")] = 300,
    memory_limit: Annotated[int, typer.Option(min=64, max=1_048_576, help="MiB of memory of each process.")] = 1024,
    output_limit: Annotated[
        int, typer.Option(min=1, max=10_240, help="KiB of a result, and of what is written.")
    ] = 1024,
    file_limit: Annotated[int, typer.Option(min=1, max=1_048_576, help="MiB of each file that is written.")] = 1024,
    open_files: Annotated[int, typer.Option(min=16, max=65_536, help="Open files of each process.")] = 256,
    processes: Annotated[int, typer.Option(min=1, max=10_000, help="Processes of a task at a time.")] = 32,
    lease: Annotated[
        int, typer.Option(min=5, max=3600, help="Seconds after which the tasks of a worker that is gone begin again.")
    ] = 15,
) -> None:
    """Do tasks of playbooks, each in a process of its own with limits. This is no sandbox for code of others.

    It shows who it is by STATEWRIGHT_TOKEN, or by STATEWRIGHT_CLIENT_ID and STATEWRIGHT_CLIENT_SECRET (or …_FILE).
    """
    from statewright.playbooks.completions import list_secrets
    from statewright.tools import worker
    from statewright.tools.tasks import TaskLimits

    names = env or []
    with report_failures():
        try:
            settings = worker.ToolSettings(
                kinds=worker.read_kinds(kinds),
                environment=worker.choose_environment(os.environ, names),
                secrets=list_secrets([os.environ.get(name, "") for name in names]),
                directories=worker.find_directories("--files", files or []),
                credentials=next(
                    iter(worker.find_directories("--credentials", [credentials] if credentials else [])), None
                ),
                is_open=open_duckdb,
                concurrency=concurrency,
                lease=timedelta(seconds=lease),
                limits=TaskLimits(
                    time_s=time_limit,
                    cpu_s=cpu_limit,
                    memory_mib=memory_limit,
                    output_bytes=output_limit * 1024,
                    file_mib=file_limit,
                    open_files=open_files,
                    processes=processes,
                ),
            )
        except worker.UnusableTools as unusable:
            raise typer.BadParameter(str(unusable)) from unusable
        os.environ.update(read_environment(os.environ))
        try:
            worker.run(settings, url=url)
        except worker.ToolsNotInstalled as missing:
            fail(str(missing))
