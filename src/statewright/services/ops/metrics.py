"""What the operations API counts."""

from collections import Counter


class OpsMetrics:
    """Numbers of one process since its start."""

    def __init__(self) -> None:
        self.explains = 0
        """Explanations that were given."""
        self.restores = 0
        """Versions that were restored."""
        self.simulations = 0
        """Simulations of workflows."""
        self.checks: Counter[str] = Counter()
        """Checks of workflows by their result, ``importable`` or ``refused``."""
