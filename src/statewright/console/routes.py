"""Every page, part and action of the console. The router and the tests are made from this table.

Each area has its rows in a module of ``pages``; they stand here by subject.
"""

from typing import Final, Protocol

from statewright.console.pages import (
    admin,
    admin_acts,
    audit,
    definition_acts,
    definitions,
    entities,
    entity,
    entity_acts,
    entity_history,
    find,
    home,
    imports,
    incidents,
    instance,
    instance_acts,
    instances,
    messages,
    model,
    model_acts,
    model_overview,
    searches,
    tasks,
    topics,
    workers,
    workflow,
    workflow_acts,
)
from statewright.console.request import Routes


class _Area(Protocol):
    @property
    def ROUTES(self) -> Routes: ...  # noqa: N802 - a constant of a module


AREAS: Final[tuple[_Area, ...]] = (
    *(admin, admin_acts, audit),
    *(definition_acts, definitions, instance, instance_acts, instances, tasks),
    *(entities, entity, entity_acts, entity_history, messages, searches),
    *(find, home, incidents, topics, workers),
    *(model, model_acts, model_overview, imports, workflow, workflow_acts),
)
ROUTES: Final[Routes] = tuple(route for area in AREAS for route in area.ROUTES)
