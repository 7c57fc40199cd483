"""Rows of which any node takes what is due: what tells the tables apart (storage/takings.py takes them)."""

from collections.abc import Callable, Iterable
from typing import Any, Final, Generic, Literal, TypeAlias, TypeVar, cast

from msgspec import Struct
from msgspec.structs import replace

from statewright.entity import ScheduledTask
from statewright.net.effects import NEVER
from statewright.storage import schedules
from statewright.storage.processes import children, leases, timers
from statewright.storage.processes.children import DueChild, DueEnd
from statewright.storage.processes.leases import MAX_TAKERS, KeptReport, LostJob
from statewright.storage.processes.timers import DueTimer

IS_LAST: Final = f"cardinality(takers) >= {MAX_TAKERS}"

WorkName: TypeAlias = Literal["transition", "timer", "start", "end", "report", "loss"]

R = TypeVar("R")


class Work(Struct, Generic[R], frozen=True, kw_only=True, eq=False):
    """Rows of a table that are taken when they are due. Texts are SQL on a row that is called ``task``."""

    name: WorkName
    noun: str
    """For operators."""
    table: str
    owner: str
    """The column of the entity or instance whose work it is."""
    columns: str
    """Those that who takes it gets."""
    read: Callable[[Iterable[Any]], R]  # Any: the columns of a row
    due: str
    """Whether it may be taken at the instant ``$1``; what else that needs are arguments from ``$6`` on."""
    order: str
    pause: str = "not_before"
    never: int = NEVER
    """A pause that does not end."""
    pauses: str = "$2::bigint"
    """The pause that taking makes; ``$2`` is its end."""
    begins: str = ""
    """What taking changes, too."""
    key: tuple[str, ...] = ("id",)
    """The columns that tell a row from others of its tenant."""
    place: str = "NULL::text"
    """Where in the definition it is, if the row knows."""
    parks: str = ""
    """What parking changes, too."""
    free: str = "0"
    """A pause that is over."""
    revives: str = ""
    """What a retry changes, too."""
    is_own: str = "true"
    """Whether a parked row of the table is of this work."""

    @property
    def is_parked(self) -> str:
        """Whether a row is parked. Uses the index of the table on such rows."""
        return f"{IS_LAST} AND {self.pause} >= {self.never} AND {self.is_own}"


AnyWork: TypeAlias = Work[Any]
"""Where what is taken does not matter."""

TASKS: Final[Work[ScheduledTask]] = Work(
    name="transition",
    noun="scheduled transition",
    table="scheduled_task",
    owner="entity",
    columns=schedules.COLUMNS,
    read=schedules.to_task,
    due="greatest(fire_at, not_before) <= $1 AND tenant <> ALL ($6::text[])",
    order="greatest(fire_at, not_before)",
    never=schedules.PARKED,
    begins=", attempts = attempts + 1",
    key=("entity", "state", "transition"),
    place="transition",
    revives=", attempts = 0, failures = 0",
)
"""With the tenants that are passed over."""

UNHELD_TASKS: Final = replace(TASKS, due=f"{TASKS.due} AND NOT {schedules.write_held(7)}")
"""The same where some are suspended: with the columns of these, too."""

TIMERS: Final[Work[DueTimer]] = Work(
    name="timer",
    noun="timer",
    table="process_timer",
    owner="instance",
    columns=timers.COLUMNS,
    read=timers.to_due_timer,
    # Timers of an instance fire in their order: of those that several nodes might take, each is the first.
    due=f"""greatest(fire_at, not_before) <= $1 AND NOT held AND language = ANY ($6::text[])
               AND ($5::int <= 1 OR NOT EXISTS (
                    SELECT FROM process_timer AS earlier
                     WHERE earlier.tenant = task.tenant AND earlier.instance = task.instance AND NOT earlier.held
                       AND (earlier.fire_at, earlier.id) < (task.fire_at, task.id)
                       AND cardinality(earlier.takers) < {MAX_TAKERS}))""",
    order="greatest(fire_at, not_before), id",
)
"""With the languages that the node knows, as all that follow."""

COUNTED: Final = replace(
    TIMERS,
    # Uses process_timer_counter, which has those that wait only.
    due="""counter IS NOT NULL AND NOT held AND not_before <= $1 AND language = ANY ($6::text[])
               AND coalesce((SELECT value FROM process_counter AS counted
                              WHERE counted.tenant = task.tenant AND counted.name = task.counter), 0) <= 0""",
    order="id",
)
"""What waits for a counter that is zero or less."""

# Each failure doubles the pause before the next attempt, up to 64 times the first one.
_DOUBLED: Final = "$1 + ($2::bigint - $1) * (1 << least(attempts, 6))"
_CHILD_DUE: Final = "not_before <= $1 AND language = ANY ($6::text[])"

STARTS: Final[Work[DueChild]] = Work(
    name="start",
    noun="start of another instance",
    table="process_child",
    owner="parent",
    columns=children.COLUMNS,
    read=children.to_child,
    due=_CHILD_DUE,
    order="not_before, id",
    pauses=_DOUBLED,
    begins=", attempts = attempts + 1",
    place="definition_id",
)

ENDS: Final[Work[DueEnd]] = Work(
    name="end",
    noun="end of another instance",
    table="process_child_end",
    owner="parent",
    columns=children.END_COLUMNS,
    read=children.to_end,
    due=_CHILD_DUE,
    order="not_before, id",
    pauses=_DOUBLED,
    begins=", attempts = attempts + 1",
)

REPORTS: Final[Work[KeptReport]] = Work(
    name="report",
    noun="report on a job",
    table="process_job",
    owner="instance",
    columns=leases.COLUMNS,
    read=leases.to_report,
    due="""kept_under IS NOT NULL AND taken_until <= $1 AND language = ANY ($6::text[])
               AND NOT EXISTS (SELECT FROM suspension
                                WHERE suspension.tenant = task.tenant AND suspension.id = task.kept_under
                                  AND suspension.ended_at IS NULL)""",
    order="reported_at, id",
    pause="taken_until",
    place="node_id",
)
"""Fresh ones are taken by ``kept_reports.take_reports``."""

LOSSES: Final[Work[LostJob]] = Work(
    name="loss",
    noun="job",
    table="process_job",
    owner="instance",
    columns=leases.LOST_COLUMNS,
    read=leases.to_lost_job,
    # Uses process_job_leased.
    due=f"""lock_expires_at < $1 AND locked_at IS NOT NULL AND language = ANY ($6::text[])
               AND ({IS_LAST} OR losses >= {leases.build_max_losses("task", "$7", "$8")})""",
    order="lock_expires_at",
    pause="lock_expires_at",
    place="node_id",
    parks=f""", worker = CASE WHEN {IS_LAST} THEN '' ELSE worker END,
           locked_at = CASE WHEN NOT ({IS_LAST}) THEN locked_at END""",
    revives=", worker = '', locked_at = NULL, losses = 0",
    free="NULL",
    is_own="kept_under IS NULL",
)
"""Jobs that were lost as often as they may; with all languages, those that limit that, and their limits."""

REPORTED: Final = cast("Work[LostJob]", replace(cast("Any", REPORTS), columns=LOSSES.columns, read=LOSSES.read))
"""The jobs of reports."""

WORKS: Final = {work.name: work for work in (TASKS, TIMERS, STARTS, ENDS, REPORTS, LOSSES)}
