"""Every page, part and action of the console. The router and the tests are made from this table.

Each area has its rows in a module of ``pages``; they stand here by subject.
"""

from typing import Final, Protocol

from statewright.console.pages import (
    admin,
    audit,
    bulk,
    definition_acts,
    definitions,
    entities,
    entity,
    entity_history,
    find,
    home,
    incidents,
    instance,
    instances,
    messages,
    model,
    model_overview,
    revisions,
    searches,
    subscriptions,
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
    *(admin, audit, subscriptions),
    *(definition_acts, definitions, instance, instances, tasks),
    *(entities, entity, entity_history, messages, searches),
    *(bulk, find, home, incidents, topics, workers),
    *(model, model_overview, revisions, workflow, workflow_acts),
)
ROUTES: Final[Routes] = tuple(route for area in AREAS for route in area.ROUTES)
