"""Names of records in the document. Members of a record that has no name are described where they stand."""

from typing import Final

from statewright.operations.checks import CheckFinding, Simulation, WorkflowCheck
from statewright.operations.explanations import ExplainedEntity, ExplainedInstance, ExplainedTransition
from statewright.operations.history import (
    ChangedEntities,
    ChangedEntity,
    Difference,
    EntityWait,
    InstanceWait,
    Restoration,
    Restored,
    RunEvent,
    VersionView,
    WholeVersion,
    WrittenEntity,
)
from statewright.operations.incidents import Incident, IncidentGroup, IncidentResolution, Retry, RetryResult
from statewright.operations.listings import (
    IdleEntities,
    InstanceCounts,
    ListedMessage,
    ListedSearchJob,
    MatchCount,
    ModelEstimate,
    StepCounts,
)
from statewright.operations.records import Listed
from statewright.operations.service import ApiDescription, IdempotencyRecord, OperatorAct, SettingList
from statewright.operations.suspensions import Resumption, SuspensionOrder, SuspensionView
from statewright.operations.work import MemberView, QueueView, Rates, ServiceNode

NAMED_RECORDS: Final[dict[str, object]] = {
    "OpsExplanation": ExplainedEntity,
    "OpsTransition": ExplainedTransition,
    "OpsInstanceExplanation": ExplainedInstance,
    "OpsFinding": CheckFinding,
    "OpsWorkflowCheck": WorkflowCheck,
    "OpsSimulation": Simulation,
    "OpsMember": MemberView,
    "OpsMembers": Listed[MemberView],
    "OpsQueue": QueueView,
    "OpsQueues": Listed[QueueView],
    "OpsNode": ServiceNode,
    "OpsNodes": Listed[ServiceNode],
    "OpsRates": Rates,
    "OpsTotal": MatchCount,
    "OpsModel": ModelEstimate,
    "OpsModels": Listed[ModelEstimate],
    "OpsIdleEntities": IdleEntities,
    "OpsMessage": ListedMessage,
    "OpsMessages": Listed[ListedMessage],
    "OpsSearchJob": ListedSearchJob,
    "OpsSearchJobs": Listed[ListedSearchJob],
    "OpsInstanceCounts": InstanceCounts,
    "OpsStepCounts": StepCounts,
    "OpsIncident": Incident,
    "OpsIncidents": Listed[Incident],
    "OpsIncidentGroup": IncidentGroup,
    "OpsIncidentGroups": Listed[IncidentGroup],
    "OpsRetry": Retry,
    "OpsRetryResult": RetryResult,
    "OpsIncidentResolution": IncidentResolution,
    "OpsNewSuspension": SuspensionOrder,
    "OpsResumption": Resumption,
    "OpsSuspension": SuspensionView,
    "OpsSuspensions": Listed[SuspensionView],
    "OpsVersion": VersionView,
    "OpsVersions": Listed[VersionView],
    "OpsVersionDocument": WholeVersion,
    "OpsRestore": Restoration,
    "OpsRestored": Restored,
    "OpsDifference": Difference,
    "OpsWrittenEntity": WrittenEntity,
    "OpsWrittenEntities": Listed[WrittenEntity],
    "OpsChange": ChangedEntity,
    "OpsChanges": ChangedEntities,
    "OpsEvent": RunEvent,
    "OpsEvents": Listed[RunEvent],
    "OpsWaited": EntityWait,
    "OpsInstanceWaited": InstanceWait,
    "OpsDescription": ApiDescription,
    "OpsSettings": SettingList,
    "OpsAct": OperatorAct,
    "OpsActs": Listed[OperatorAct],
    "OpsIdempotencyRecord": IdempotencyRecord,
}

_NAMES: Final = {record: name for name, record in NAMED_RECORDS.items()}


def name_schema(record: object) -> str:
    """The name of a record in the document; what is no record is named already."""
    return record if isinstance(record, str) else _NAMES[record]
