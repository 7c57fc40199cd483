"""What the operations API counts."""


class OpsMetrics:
    """Numbers of one process since its start."""

    def __init__(self) -> None:
        self.explains = 0
        """Explanations that were given."""
