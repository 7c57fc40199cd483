"""Runs commands in the process of the tests, which may serve at the same time."""

import sys
from typing import Any

from click.testing import Result
from typer.testing import CliRunner

from statewright.telemetry import logs


class CommandRunner(CliRunner):
    """One whose result is what the command wrote, without the log of a service in this process."""

    def invoke(self, *args: Any, **options: Any) -> Result:  # Any: as typer has it
        output = logs._output
        before = output.stream
        output.stream = before or sys.stdout.buffer  # the runner takes the place of sys.stdout meanwhile
        try:
            return super().invoke(*args, **options)
        finally:
            output.stream = before
