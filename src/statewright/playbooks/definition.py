"""A playbook that was checked, ready to be compiled and run (docs/reference/playbooks.md).

Both generations of names (docs/reference/playbooks.md#two-generations-of-names) are one here: whatever the author
wrote, a task has ``input``, what is written to a scope is an :class:`Assignment`, and defaults are filled in. What
names a step names one that exists, and every template is compiled.
"""

from functools import cached_property
from typing import Final, Literal, TypeAlias

from msgspec import Struct

from statewright.jsonval.values import JsonObject, JsonValue
from statewright.playbooks.templates import Condition, Template

DEFAULT_ATTEMPTS: Final = 3
"""Executions of a task that is tried again, the first included."""
DEFAULT_MAX_IN_FLIGHT: Final = 10
"""Elements of a parallel loop that run at once."""

FailureMode: TypeAlias = Literal["fail_on_any_error", "fail_fast", "best_effort"]
LoopFailureMode: TypeAlias = Literal["fail_fast", "best_effort"]
Do: TypeAlias = Literal["continue", "retry", "break", "jump", "fail"]
Backoff: TypeAlias = Literal["none", "linear", "exponential"]
OnUnmatched: TypeAlias = Literal["fail", "continue"]
OnDeny: TypeAlias = Literal["pending", "discard"]
OnIncomplete: TypeAlias = Literal["fail", "fire", "discard"]
OnQuiescence: TypeAlias = Literal["wait", "discard", "fail"]
FinalStepFailure: TypeAlias = Literal["fail", "partial"]
JoinMode: TypeAlias = Literal["all", "any", "n"]
RouterMode: TypeAlias = Literal["exclusive", "inclusive"]


class Assignment(Struct, frozen=True, kw_only=True):
    """A value to be written to ``ctx`` or ``iter``."""

    scope: Literal["ctx", "iter"]
    path: tuple[str, ...]
    """The member, and those within it: ``("a", "b")`` of the key ``a.b``. Never empty."""
    value: Template

    @property
    def key(self) -> str:
        """The path as authors write it, without the scope."""
        return ".".join(self.path)


class TaskAction(Struct, frozen=True, kw_only=True):
    """What a rule makes of the outcome of a task (``then``)."""

    do: Do
    attempts: int = DEFAULT_ATTEMPTS
    """Of ``retry``: executions, the first included; at least 1."""
    backoff: Backoff = "none"
    delay: Template | None = None
    """Of ``retry``: seconds."""
    to: str | None = None
    """Of ``jump``: a label of the same pipeline; ``previous`` was resolved. ``None`` for all others."""
    set: tuple[Assignment, ...] = ()
    """Assignments to ``iter`` first, then those to ``ctx``; each kind in the order of the document."""


class TaskRule(Struct, frozen=True, kw_only=True):
    """``when`` that is ``None`` always matches. A condition that cannot be evaluated does not."""

    when: Condition | None
    then: TaskAction


class TaskPolicy(Struct, frozen=True, kw_only=True):
    """The first rule that matches decides; if none does, ``otherwise`` (the rule ``else``); if there is none, an
    outcome that is ok continues, and an error follows ``on_unmatched``.
    """

    rules: tuple[TaskRule, ...] = ()
    otherwise: TaskAction | None = None
    on_unmatched: OnUnmatched = "fail"

    @property
    def actions(self) -> tuple[TaskAction, ...]:
        """All that it may decide."""
        return (*(rule.then for rule in self.rules), *(() if self.otherwise is None else (self.otherwise,)))


class PipelineTask(Struct, frozen=True, kw_only=True):
    """A task of a pipeline. Templates of the workbook are filled in."""

    label: str
    """Unique in its step."""
    kind: str
    fields: Template
    """An object: all that the author wrote but for ``name``, ``kind`` and ``spec``; ``args`` is called ``input``."""
    policy: TaskPolicy | None = None
    """``None``: an outcome that is ok continues, an error fails."""
    spec: JsonObject
    """The effective configuration: ``spec`` of executor, step, loop and task merged, each without its ``policy``."""
    source: JsonObject
    """The task as a document in the newer names; :func:`~statewright.playbooks.tasks.read_tasks` reads it again."""


class AdmissionRule(Struct, frozen=True, kw_only=True):
    """``when`` that is ``None`` always matches. A condition that cannot be evaluated denies."""

    when: Condition | None
    allow: bool


class StepAdmission(Struct, frozen=True, kw_only=True):
    """The rules in order, the first that matches decides; then ``otherwise`` (the rule ``else``), and where there is
    none the token is denied. Without rules and without ``otherwise`` every token is admitted; that is ``None`` in the
    step.
    """

    rules: tuple[AdmissionRule, ...]
    otherwise: bool | None = None
    """What the rule ``else`` says; ``None``: there is none."""
    on_deny: OnDeny = "pending"


class Join(Struct, frozen=True, kw_only=True):
    """One token from several steps."""

    mode: JoinMode
    steps: tuple[str, ...]
    """The sources, each once, in the order in which their ``args`` are merged. Never empty."""
    count: int
    """How many must arrive: of ``any`` 1, of ``all`` as many as there are sources."""
    on_incomplete: OnIncomplete = "fail"


class StepLoop(Struct, frozen=True, kw_only=True):
    """The pipeline is run for each element."""

    items: Template
    """``in``: rendered once. :func:`list_elements` makes a list of what it gives."""
    iterator: str
    """The name of the element, in ``iter`` and bare."""
    is_parallel: bool = False
    max_in_flight: "int | Template" = 1
    """At least 1, or a template of such a number; of a sequential loop 1."""
    failure_mode: LoopFailureMode = "fail_fast"


class NextArc(Struct, frozen=True, kw_only=True):
    """Where a token goes."""

    target: str
    when: Condition | None = None
    """``None``: it matches always, and a failure that it routes stays unhandled."""
    args: Template | None = None
    """An object, frozen in the token; ``None``: an empty one."""
    set: tuple[Assignment, ...] = ()
    """Written to ``ctx`` when the arc fires, before ``args`` are rendered. All of scope ``ctx``."""


class Router(Struct, frozen=True, kw_only=True):
    """``next``. It has at least one arc."""

    arcs: tuple[NextArc, ...]
    mode: RouterMode = "exclusive"


class Step(Struct, frozen=True, kw_only=True):
    """A step: admission, join, pipeline and arcs."""

    name: str
    description: str = ""
    admission: StepAdmission | None = None
    join: Join | None = None
    timeout_ms: int | None = None
    """``spec.policy.lifecycle.timeout_s``: how long a token may be pending, and how long a run may take; at least 1."""
    input: Template | None = None
    """An object, rendered when the pipeline begins, of each element anew."""
    loop: StepLoop | None = None
    tasks: tuple[PipelineTask, ...] = ()
    """The pipeline; without tasks the step completes at once."""
    set: tuple[Assignment, ...] = ()
    """Written to ``ctx`` after the pipeline ended well, before arcs are evaluated. All of scope ``ctx``."""
    router: Router | None = None
    """``None``: a leaf."""


class Limits(Struct, frozen=True, kw_only=True):
    """Of one execution; a playbook can only lower them (``executor.spec.policy.limits``, by the names here)."""

    max_in_flight: int = 100
    """Step runs at once."""
    max_step_runs: int = 10_000
    """Step runs altogether."""
    max_runs_per_step: int = 1_000
    max_loop_elements: int = 100_000
    max_ctx_bytes: int = 1024 * 1024
    max_args_bytes: int = 10 * 1024 * 1024
    """Of one token, as much as the result of a worker; what is above 64 KiB stays out of the instance's document."""
    max_task_executions: int = 10_000
    """Of one run of a pipeline."""


class Credential(Struct, frozen=True, kw_only=True):
    """An entry of ``keychain``: a name under which tool fields find a secret, and where it comes from."""

    name: str
    kind: str
    fields: JsonObject
    """All other members, as written."""


class DoubtfulName(Struct, frozen=True, kw_only=True):
    """A name that a template of a step has bare, and that nothing in the playbook gives a value: it has one only if the
    start request or the token brings it.
    """

    step: str
    path: str
    """Of the template: a JSON pointer."""
    name: str


class Playbook(Struct, frozen=True, kw_only=True, dict=True):
    """A playbook, immutable; shared by all its executions."""

    name: str
    path: str
    version: str | None = None
    description: str = ""
    tags: tuple[str, ...] = ()
    metadata: JsonObject
    """As written."""
    keychain: tuple[Credential, ...] = ()
    workload: JsonObject
    """Defaults; the start request is merged over them (:func:`statewright.jsonval.values.merge_deep`)."""
    entry: str
    """The step of the first token."""
    final: str | None = None
    """The step that runs once at the end."""
    no_next_is_error: bool = False
    failure_mode: FailureMode = "fail_on_any_error"
    on_quiescence: OnQuiescence = "wait"
    """What becomes of an execution in which only denied tokens are left."""
    final_step_failure: FinalStepFailure = "fail"
    timeout_ms: int | None = None
    """``executor.spec.timeout_s``: how long the whole execution may take; at least 1."""
    limits: Limits = Limits()
    steps: tuple[Step, ...]
    """In the order of the document; never empty."""
    doubtful: tuple[DoubtfulName, ...] = ()

    @cached_property
    def by_name(self) -> dict[str, Step]:
        """The steps by their names."""
        return {step.name: step for step in self.steps}


def list_elements(value: JsonValue) -> list[JsonValue]:
    """The elements of a loop over a value: a list as it is, of null none, of anything else the value itself."""
    if isinstance(value, list):
        return value
    return [] if value is None else [value]
