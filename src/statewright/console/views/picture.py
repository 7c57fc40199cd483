"""Diagrams as templates see them: the plan for the script of the page, and the marks that change."""

from msgspec import Struct

from statewright.console.diagrams.drawing import Drawing, Marks
from statewright.console.diagrams.plan import plan_drawing, write_marks, write_plan


class Picture(Struct, frozen=True, kw_only=True):
    """A diagram. ``id`` is one of the page; ``plan`` and ``marks`` are JSON that the script reads."""

    id: str
    label: str
    plan: str
    marks: str = "{}"
    tier: int = 1
    left_out: int = 0


def build_picture(
    drawing: Drawing,
    marks: Marks | None = None,
    *,
    picture_id: str = "diagram",
    label: str,
    focus: int | None = None,
    is_neighbourhood: bool = False,
) -> Picture:
    """The picture of a drawing, opened at ``focus``."""
    plan = plan_drawing(drawing, focus=focus, is_neighbourhood=is_neighbourhood)
    return Picture(
        id=picture_id,
        label=label,
        plan=write_plan(plan),
        marks=write_marks(marks or Marks()),
        tier=plan.tier,
        left_out=plan.left_out,
    )
