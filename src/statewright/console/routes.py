"""Every page, part and action of the console. The router and the tests are made from this table.

Each area has its rows in a module of ``pages``; here is one line for each.
"""

from typing import Final

from statewright.console.pages import (
    admin,
    admin_acts,
    audit,
    definition_acts,
    definition_diff,
    definitions,
    entities,
    entity,
    entity_acts,
    entity_history,
    find,
    home,
    imports,
    incident,
    incidents,
    instance,
    instance_acts,
    instances,
    messages,
    model,
    model_acts,
    models,
    searches,
    tasks,
    topics,
    workers,
    workflow_acts,
    workflows,
)
from statewright.console.route import Routes

ROUTES: Final[Routes] = (
    *admin.ROUTES,
    *admin_acts.ROUTES,
    *audit.ROUTES,
    *definition_acts.ROUTES,
    *definition_diff.ROUTES,
    *definitions.ROUTES,
    *instance.ROUTES,
    *instance_acts.ROUTES,
    *instances.ROUTES,
    *entities.ROUTES,
    *find.ROUTES,
    *entity.ROUTES,
    *entity_acts.ROUTES,
    *entity_history.ROUTES,
    *home.ROUTES,
    *messages.ROUTES,
    *imports.ROUTES,
    *incident.ROUTES,
    *incidents.ROUTES,
    *model.ROUTES,
    *model_acts.ROUTES,
    *models.ROUTES,
    *workflow_acts.ROUTES,
    *searches.ROUTES,
    *tasks.ROUTES,
    *topics.ROUTES,
    *workers.ROUTES,
    *workflows.ROUTES,
)
