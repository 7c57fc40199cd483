"""The program with a toy language, of which one timer ends the process that fires it, or on the node ``frozen`` keeps
its interpreter for good: a stand-in for whatever a process does not survive.
"""

import os
import sys
from itertools import repeat
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from statewright.app import runtime
from statewright.cli.main import main
from statewright.net import Moment
from statewright.processes.language import Applied
from statewright.services.processes.installing import install_language
from tests.integration.processes.errands import Errand, Errands, Plan


class DeadlyErrands(Errands):
    """Some of these errands are survived by no process that ends them for being late."""

    def fire_timer(self, process: Plan, instance: Errand, timer: str, moment: Moment) -> Applied[Errand]:
        if instance.marking.data.get("deadly"):
            if os.environ["STATEWRIGHT_NODE_ID"].startswith("frozen"):
                sum(repeat(1))
            if os.environ["STATEWRIGHT_NODE_ID"] != "immune":
                os._exit(9)
        return super().fire_timer(process, instance, timer, moment)


if __name__ == "__main__":
    runtime.LANGUAGES = (*runtime.LANGUAGES, install_language(DeadlyErrands()))  # type: ignore[misc]
    main()
