import datetime

from google.protobuf import struct_pb2 as _struct_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class StepType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    STEP_TYPE_UNSPECIFIED: _ClassVar[StepType]
    STEP_TYPE_SERVICE_TASK: _ClassVar[StepType]
    STEP_TYPE_USER_TASK: _ClassVar[StepType]
    STEP_TYPE_DECISION: _ClassVar[StepType]
    STEP_TYPE_TRANSFORMATION: _ClassVar[StepType]
    STEP_TYPE_WAIT: _ClassVar[StepType]
    STEP_TYPE_PARALLEL_GATEWAY: _ClassVar[StepType]
    STEP_TYPE_JOIN_GATEWAY: _ClassVar[StepType]
    STEP_TYPE_END: _ClassVar[StepType]
    STEP_TYPE_DECISION_TABLE: _ClassVar[StepType]

class InstanceStatus(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    INSTANCE_STATUS_UNSPECIFIED: _ClassVar[InstanceStatus]
    INSTANCE_STATUS_ACTIVE: _ClassVar[InstanceStatus]
    INSTANCE_STATUS_WAITING: _ClassVar[InstanceStatus]
    INSTANCE_STATUS_COMPLETED: _ClassVar[InstanceStatus]
    INSTANCE_STATUS_FAILED: _ClassVar[InstanceStatus]
    INSTANCE_STATUS_CANCELLED: _ClassVar[InstanceStatus]

class StepExecutionStatus(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    STEP_EXECUTION_STATUS_UNSPECIFIED: _ClassVar[StepExecutionStatus]
    STEP_EXECUTION_STATUS_RUNNING: _ClassVar[StepExecutionStatus]
    STEP_EXECUTION_STATUS_COMPLETED: _ClassVar[StepExecutionStatus]
    STEP_EXECUTION_STATUS_FAILED: _ClassVar[StepExecutionStatus]
    STEP_EXECUTION_STATUS_SKIPPED: _ClassVar[StepExecutionStatus]

class BoundaryEventType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    BOUNDARY_EVENT_TYPE_UNSPECIFIED: _ClassVar[BoundaryEventType]
    BOUNDARY_EVENT_TYPE_TIMER: _ClassVar[BoundaryEventType]
STEP_TYPE_UNSPECIFIED: StepType
STEP_TYPE_SERVICE_TASK: StepType
STEP_TYPE_USER_TASK: StepType
STEP_TYPE_DECISION: StepType
STEP_TYPE_TRANSFORMATION: StepType
STEP_TYPE_WAIT: StepType
STEP_TYPE_PARALLEL_GATEWAY: StepType
STEP_TYPE_JOIN_GATEWAY: StepType
STEP_TYPE_END: StepType
STEP_TYPE_DECISION_TABLE: StepType
INSTANCE_STATUS_UNSPECIFIED: InstanceStatus
INSTANCE_STATUS_ACTIVE: InstanceStatus
INSTANCE_STATUS_WAITING: InstanceStatus
INSTANCE_STATUS_COMPLETED: InstanceStatus
INSTANCE_STATUS_FAILED: InstanceStatus
INSTANCE_STATUS_CANCELLED: InstanceStatus
STEP_EXECUTION_STATUS_UNSPECIFIED: StepExecutionStatus
STEP_EXECUTION_STATUS_RUNNING: StepExecutionStatus
STEP_EXECUTION_STATUS_COMPLETED: StepExecutionStatus
STEP_EXECUTION_STATUS_FAILED: StepExecutionStatus
STEP_EXECUTION_STATUS_SKIPPED: StepExecutionStatus
BOUNDARY_EVENT_TYPE_UNSPECIFIED: BoundaryEventType
BOUNDARY_EVENT_TYPE_TIMER: BoundaryEventType

class WorkflowDefinition(_message.Message):
    __slots__ = ("id", "version", "name", "description", "auto_start_next_workflow", "next_workflow_id", "steps", "metadata")
    ID_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    AUTO_START_NEXT_WORKFLOW_FIELD_NUMBER: _ClassVar[int]
    NEXT_WORKFLOW_ID_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    id: str
    version: int
    name: str
    description: str
    auto_start_next_workflow: bool
    next_workflow_id: str
    steps: _containers.RepeatedCompositeFieldContainer[WorkflowStep]
    metadata: _struct_pb2.Struct
    def __init__(self, id: _Optional[str] = ..., version: _Optional[int] = ..., name: _Optional[str] = ..., description: _Optional[str] = ..., auto_start_next_workflow: _Optional[bool] = ..., next_workflow_id: _Optional[str] = ..., steps: _Optional[_Iterable[_Union[WorkflowStep, _Mapping]]] = ..., metadata: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ...) -> None: ...

class WorkflowStep(_message.Message):
    __slots__ = ("id", "name", "type", "description", "next_step", "parallel_next_steps", "join_step", "conditional_next_steps", "transformations", "job_type", "delegate_class", "retry_count", "boundary_events", "decision_table", "hit_policy")
    class ConditionalNextStepsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class TransformationsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: _struct_pb2.Value
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_struct_pb2.Value, _Mapping]] = ...) -> None: ...
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    NEXT_STEP_FIELD_NUMBER: _ClassVar[int]
    PARALLEL_NEXT_STEPS_FIELD_NUMBER: _ClassVar[int]
    JOIN_STEP_FIELD_NUMBER: _ClassVar[int]
    CONDITIONAL_NEXT_STEPS_FIELD_NUMBER: _ClassVar[int]
    TRANSFORMATIONS_FIELD_NUMBER: _ClassVar[int]
    JOB_TYPE_FIELD_NUMBER: _ClassVar[int]
    DELEGATE_CLASS_FIELD_NUMBER: _ClassVar[int]
    RETRY_COUNT_FIELD_NUMBER: _ClassVar[int]
    BOUNDARY_EVENTS_FIELD_NUMBER: _ClassVar[int]
    DECISION_TABLE_FIELD_NUMBER: _ClassVar[int]
    HIT_POLICY_FIELD_NUMBER: _ClassVar[int]
    id: str
    name: str
    type: StepType
    description: str
    next_step: str
    parallel_next_steps: _containers.RepeatedScalarFieldContainer[str]
    join_step: str
    conditional_next_steps: _containers.ScalarMap[str, str]
    transformations: _containers.MessageMap[str, _struct_pb2.Value]
    job_type: str
    delegate_class: str
    retry_count: int
    boundary_events: _containers.RepeatedCompositeFieldContainer[BoundaryEvent]
    decision_table: DecisionTable
    hit_policy: str
    def __init__(self, id: _Optional[str] = ..., name: _Optional[str] = ..., type: _Optional[_Union[StepType, str]] = ..., description: _Optional[str] = ..., next_step: _Optional[str] = ..., parallel_next_steps: _Optional[_Iterable[str]] = ..., join_step: _Optional[str] = ..., conditional_next_steps: _Optional[_Mapping[str, str]] = ..., transformations: _Optional[_Mapping[str, _struct_pb2.Value]] = ..., job_type: _Optional[str] = ..., delegate_class: _Optional[str] = ..., retry_count: _Optional[int] = ..., boundary_events: _Optional[_Iterable[_Union[BoundaryEvent, _Mapping]]] = ..., decision_table: _Optional[_Union[DecisionTable, _Mapping]] = ..., hit_policy: _Optional[str] = ...) -> None: ...

class DecisionTable(_message.Message):
    __slots__ = ("rules", "default_next_step")
    RULES_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_NEXT_STEP_FIELD_NUMBER: _ClassVar[int]
    rules: _containers.RepeatedCompositeFieldContainer[DecisionTableRule]
    default_next_step: str
    def __init__(self, rules: _Optional[_Iterable[_Union[DecisionTableRule, _Mapping]]] = ..., default_next_step: _Optional[str] = ...) -> None: ...

class DecisionTableRule(_message.Message):
    __slots__ = ("when", "then", "outputs")
    class WhenEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class OutputsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: _struct_pb2.Value
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_struct_pb2.Value, _Mapping]] = ...) -> None: ...
    WHEN_FIELD_NUMBER: _ClassVar[int]
    THEN_FIELD_NUMBER: _ClassVar[int]
    OUTPUTS_FIELD_NUMBER: _ClassVar[int]
    when: _containers.ScalarMap[str, str]
    then: str
    outputs: _containers.MessageMap[str, _struct_pb2.Value]
    def __init__(self, when: _Optional[_Mapping[str, str]] = ..., then: _Optional[str] = ..., outputs: _Optional[_Mapping[str, _struct_pb2.Value]] = ...) -> None: ...

class BoundaryEvent(_message.Message):
    __slots__ = ("type", "duration", "interrupting", "target_step_id")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    DURATION_FIELD_NUMBER: _ClassVar[int]
    INTERRUPTING_FIELD_NUMBER: _ClassVar[int]
    TARGET_STEP_ID_FIELD_NUMBER: _ClassVar[int]
    type: BoundaryEventType
    duration: str
    interrupting: bool
    target_step_id: str
    def __init__(self, type: _Optional[_Union[BoundaryEventType, str]] = ..., duration: _Optional[str] = ..., interrupting: _Optional[bool] = ..., target_step_id: _Optional[str] = ...) -> None: ...

class WorkflowInstance(_message.Message):
    __slots__ = ("id", "definition_id", "definition_version", "status", "current_step_ids", "variables", "started_at", "completed_at", "failure_reason", "business_key")
    ID_FIELD_NUMBER: _ClassVar[int]
    DEFINITION_ID_FIELD_NUMBER: _ClassVar[int]
    DEFINITION_VERSION_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    CURRENT_STEP_IDS_FIELD_NUMBER: _ClassVar[int]
    VARIABLES_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_FIELD_NUMBER: _ClassVar[int]
    COMPLETED_AT_FIELD_NUMBER: _ClassVar[int]
    FAILURE_REASON_FIELD_NUMBER: _ClassVar[int]
    BUSINESS_KEY_FIELD_NUMBER: _ClassVar[int]
    id: str
    definition_id: str
    definition_version: int
    status: InstanceStatus
    current_step_ids: _containers.RepeatedScalarFieldContainer[str]
    variables: _struct_pb2.Struct
    started_at: _timestamp_pb2.Timestamp
    completed_at: _timestamp_pb2.Timestamp
    failure_reason: str
    business_key: str
    def __init__(self, id: _Optional[str] = ..., definition_id: _Optional[str] = ..., definition_version: _Optional[int] = ..., status: _Optional[_Union[InstanceStatus, str]] = ..., current_step_ids: _Optional[_Iterable[str]] = ..., variables: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., started_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., completed_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., failure_reason: _Optional[str] = ..., business_key: _Optional[str] = ...) -> None: ...

class StepExecution(_message.Message):
    __slots__ = ("id", "instance_id", "step_id", "step_type", "attempt_number", "status", "started_at", "ended_at", "failure_reason", "step_name", "definition_id", "definition_name")
    ID_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    STEP_ID_FIELD_NUMBER: _ClassVar[int]
    STEP_TYPE_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_NUMBER_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_FIELD_NUMBER: _ClassVar[int]
    ENDED_AT_FIELD_NUMBER: _ClassVar[int]
    FAILURE_REASON_FIELD_NUMBER: _ClassVar[int]
    STEP_NAME_FIELD_NUMBER: _ClassVar[int]
    DEFINITION_ID_FIELD_NUMBER: _ClassVar[int]
    DEFINITION_NAME_FIELD_NUMBER: _ClassVar[int]
    id: str
    instance_id: str
    step_id: str
    step_type: StepType
    attempt_number: int
    status: StepExecutionStatus
    started_at: _timestamp_pb2.Timestamp
    ended_at: _timestamp_pb2.Timestamp
    failure_reason: str
    step_name: str
    definition_id: str
    definition_name: str
    def __init__(self, id: _Optional[str] = ..., instance_id: _Optional[str] = ..., step_id: _Optional[str] = ..., step_type: _Optional[_Union[StepType, str]] = ..., attempt_number: _Optional[int] = ..., status: _Optional[_Union[StepExecutionStatus, str]] = ..., started_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., ended_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., failure_reason: _Optional[str] = ..., step_name: _Optional[str] = ..., definition_id: _Optional[str] = ..., definition_name: _Optional[str] = ...) -> None: ...

class Job(_message.Message):
    __slots__ = ("id", "job_type", "instance_id", "step_id", "step_execution_id", "retries_remaining", "variables", "lock_expires_at")
    ID_FIELD_NUMBER: _ClassVar[int]
    JOB_TYPE_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    STEP_ID_FIELD_NUMBER: _ClassVar[int]
    STEP_EXECUTION_ID_FIELD_NUMBER: _ClassVar[int]
    RETRIES_REMAINING_FIELD_NUMBER: _ClassVar[int]
    VARIABLES_FIELD_NUMBER: _ClassVar[int]
    LOCK_EXPIRES_AT_FIELD_NUMBER: _ClassVar[int]
    id: str
    job_type: str
    instance_id: str
    step_id: str
    step_execution_id: str
    retries_remaining: int
    variables: _struct_pb2.Struct
    lock_expires_at: _timestamp_pb2.Timestamp
    def __init__(self, id: _Optional[str] = ..., job_type: _Optional[str] = ..., instance_id: _Optional[str] = ..., step_id: _Optional[str] = ..., step_execution_id: _Optional[str] = ..., retries_remaining: _Optional[int] = ..., variables: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., lock_expires_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class JobDispatchEvent(_message.Message):
    __slots__ = ("schema_version", "dedup_id", "job_id", "instance_id", "step_execution_id", "job_type", "retries_remaining", "job_payload", "created_at")
    SCHEMA_VERSION_FIELD_NUMBER: _ClassVar[int]
    DEDUP_ID_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    STEP_EXECUTION_ID_FIELD_NUMBER: _ClassVar[int]
    JOB_TYPE_FIELD_NUMBER: _ClassVar[int]
    RETRIES_REMAINING_FIELD_NUMBER: _ClassVar[int]
    JOB_PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    schema_version: int
    dedup_id: str
    job_id: str
    instance_id: str
    step_execution_id: str
    job_type: str
    retries_remaining: int
    job_payload: bytes
    created_at: _timestamp_pb2.Timestamp
    def __init__(self, schema_version: _Optional[int] = ..., dedup_id: _Optional[str] = ..., job_id: _Optional[str] = ..., instance_id: _Optional[str] = ..., step_execution_id: _Optional[str] = ..., job_type: _Optional[str] = ..., retries_remaining: _Optional[int] = ..., job_payload: _Optional[bytes] = ..., created_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class UploadDefinitionRequest(_message.Message):
    __slots__ = ("definition",)
    DEFINITION_FIELD_NUMBER: _ClassVar[int]
    definition: WorkflowDefinition
    def __init__(self, definition: _Optional[_Union[WorkflowDefinition, _Mapping]] = ...) -> None: ...

class UploadDefinitionResponse(_message.Message):
    __slots__ = ("id", "version", "uploaded_at")
    ID_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    UPLOADED_AT_FIELD_NUMBER: _ClassVar[int]
    id: str
    version: int
    uploaded_at: _timestamp_pb2.Timestamp
    def __init__(self, id: _Optional[str] = ..., version: _Optional[int] = ..., uploaded_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class GetDefinitionRequest(_message.Message):
    __slots__ = ("id", "version")
    ID_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    id: str
    version: int
    def __init__(self, id: _Optional[str] = ..., version: _Optional[int] = ...) -> None: ...

class GetDefinitionResponse(_message.Message):
    __slots__ = ("definition",)
    DEFINITION_FIELD_NUMBER: _ClassVar[int]
    definition: WorkflowDefinition
    def __init__(self, definition: _Optional[_Union[WorkflowDefinition, _Mapping]] = ...) -> None: ...

class ListDefinitionsRequest(_message.Message):
    __slots__ = ("keyword", "page", "page_size")
    KEYWORD_FIELD_NUMBER: _ClassVar[int]
    PAGE_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    keyword: str
    page: int
    page_size: int
    def __init__(self, keyword: _Optional[str] = ..., page: _Optional[int] = ..., page_size: _Optional[int] = ...) -> None: ...

class ListDefinitionsResponse(_message.Message):
    __slots__ = ("definitions", "total")
    DEFINITIONS_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    definitions: _containers.RepeatedCompositeFieldContainer[WorkflowDefinition]
    total: int
    def __init__(self, definitions: _Optional[_Iterable[_Union[WorkflowDefinition, _Mapping]]] = ..., total: _Optional[int] = ...) -> None: ...

class StartInstanceRequest(_message.Message):
    __slots__ = ("definition_id", "definition_version", "variables", "business_key")
    DEFINITION_ID_FIELD_NUMBER: _ClassVar[int]
    DEFINITION_VERSION_FIELD_NUMBER: _ClassVar[int]
    VARIABLES_FIELD_NUMBER: _ClassVar[int]
    BUSINESS_KEY_FIELD_NUMBER: _ClassVar[int]
    definition_id: str
    definition_version: int
    variables: _struct_pb2.Struct
    business_key: str
    def __init__(self, definition_id: _Optional[str] = ..., definition_version: _Optional[int] = ..., variables: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., business_key: _Optional[str] = ...) -> None: ...

class StartInstanceResponse(_message.Message):
    __slots__ = ("instance",)
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    instance: WorkflowInstance
    def __init__(self, instance: _Optional[_Union[WorkflowInstance, _Mapping]] = ...) -> None: ...

class GetInstanceRequest(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    def __init__(self, id: _Optional[str] = ...) -> None: ...

class GetInstanceResponse(_message.Message):
    __slots__ = ("instance",)
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    instance: WorkflowInstance
    def __init__(self, instance: _Optional[_Union[WorkflowInstance, _Mapping]] = ...) -> None: ...

class GetInstanceHistoryRequest(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    def __init__(self, id: _Optional[str] = ...) -> None: ...

class GetInstanceHistoryResponse(_message.Message):
    __slots__ = ("executions",)
    EXECUTIONS_FIELD_NUMBER: _ClassVar[int]
    executions: _containers.RepeatedCompositeFieldContainer[StepExecution]
    def __init__(self, executions: _Optional[_Iterable[_Union[StepExecution, _Mapping]]] = ...) -> None: ...

class CancelInstanceRequest(_message.Message):
    __slots__ = ("id", "reason")
    ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    id: str
    reason: str
    def __init__(self, id: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class CancelInstanceResponse(_message.Message):
    __slots__ = ("instance",)
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    instance: WorkflowInstance
    def __init__(self, instance: _Optional[_Union[WorkflowInstance, _Mapping]] = ...) -> None: ...

class ListInstancesRequest(_message.Message):
    __slots__ = ("definition_id", "status", "business_key", "page", "page_size")
    DEFINITION_ID_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    BUSINESS_KEY_FIELD_NUMBER: _ClassVar[int]
    PAGE_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    definition_id: str
    status: InstanceStatus
    business_key: str
    page: int
    page_size: int
    def __init__(self, definition_id: _Optional[str] = ..., status: _Optional[_Union[InstanceStatus, str]] = ..., business_key: _Optional[str] = ..., page: _Optional[int] = ..., page_size: _Optional[int] = ...) -> None: ...

class ListInstancesResponse(_message.Message):
    __slots__ = ("instances", "total")
    INSTANCES_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    instances: _containers.RepeatedCompositeFieldContainer[WorkflowInstance]
    total: int
    def __init__(self, instances: _Optional[_Iterable[_Union[WorkflowInstance, _Mapping]]] = ..., total: _Optional[int] = ...) -> None: ...

class PollJobsRequest(_message.Message):
    __slots__ = ("worker_id", "job_types", "max_jobs", "lease_seconds")
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    JOB_TYPES_FIELD_NUMBER: _ClassVar[int]
    MAX_JOBS_FIELD_NUMBER: _ClassVar[int]
    LEASE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    worker_id: str
    job_types: _containers.RepeatedScalarFieldContainer[str]
    max_jobs: int
    lease_seconds: int
    def __init__(self, worker_id: _Optional[str] = ..., job_types: _Optional[_Iterable[str]] = ..., max_jobs: _Optional[int] = ..., lease_seconds: _Optional[int] = ...) -> None: ...

class PollJobsResponse(_message.Message):
    __slots__ = ("jobs",)
    JOBS_FIELD_NUMBER: _ClassVar[int]
    jobs: _containers.RepeatedCompositeFieldContainer[Job]
    def __init__(self, jobs: _Optional[_Iterable[_Union[Job, _Mapping]]] = ...) -> None: ...

class ExtendJobLeaseRequest(_message.Message):
    __slots__ = ("job_id", "worker_id", "lease_seconds")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    LEASE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    worker_id: str
    lease_seconds: int
    def __init__(self, job_id: _Optional[str] = ..., worker_id: _Optional[str] = ..., lease_seconds: _Optional[int] = ...) -> None: ...

class ExtendJobLeaseResponse(_message.Message):
    __slots__ = ("accepted", "lock_expires_at")
    ACCEPTED_FIELD_NUMBER: _ClassVar[int]
    LOCK_EXPIRES_AT_FIELD_NUMBER: _ClassVar[int]
    accepted: bool
    lock_expires_at: _timestamp_pb2.Timestamp
    def __init__(self, accepted: _Optional[bool] = ..., lock_expires_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class CompleteJobRequest(_message.Message):
    __slots__ = ("job_id", "worker_id", "variables_to_set")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    VARIABLES_TO_SET_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    worker_id: str
    variables_to_set: _struct_pb2.Struct
    def __init__(self, job_id: _Optional[str] = ..., worker_id: _Optional[str] = ..., variables_to_set: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ...) -> None: ...

class CompleteJobResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class FailJobRequest(_message.Message):
    __slots__ = ("job_id", "worker_id", "retryable", "error_message", "retry_after_seconds")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    RETRYABLE_FIELD_NUMBER: _ClassVar[int]
    ERROR_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_SECONDS_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    worker_id: str
    retryable: bool
    error_message: str
    retry_after_seconds: int
    def __init__(self, job_id: _Optional[str] = ..., worker_id: _Optional[str] = ..., retryable: _Optional[bool] = ..., error_message: _Optional[str] = ..., retry_after_seconds: _Optional[int] = ...) -> None: ...

class FailJobResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class CompleteUserTaskRequest(_message.Message):
    __slots__ = ("completed_by", "result", "instance_id", "user_task_step_id")
    COMPLETED_BY_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    USER_TASK_STEP_ID_FIELD_NUMBER: _ClassVar[int]
    completed_by: str
    result: _struct_pb2.Struct
    instance_id: str
    user_task_step_id: str
    def __init__(self, completed_by: _Optional[str] = ..., result: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., instance_id: _Optional[str] = ..., user_task_step_id: _Optional[str] = ...) -> None: ...

class CompleteUserTaskResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class SignalWaitRequest(_message.Message):
    __slots__ = ("instance_id", "wait_step_id", "variables")
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    WAIT_STEP_ID_FIELD_NUMBER: _ClassVar[int]
    VARIABLES_FIELD_NUMBER: _ClassVar[int]
    instance_id: str
    wait_step_id: str
    variables: _struct_pb2.Struct
    def __init__(self, instance_id: _Optional[str] = ..., wait_step_id: _Optional[str] = ..., variables: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ...) -> None: ...

class SignalWaitResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class RetryStepRequest(_message.Message):
    __slots__ = ("instance_id", "step_id", "variables")
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    STEP_ID_FIELD_NUMBER: _ClassVar[int]
    VARIABLES_FIELD_NUMBER: _ClassVar[int]
    instance_id: str
    step_id: str
    variables: _struct_pb2.Struct
    def __init__(self, instance_id: _Optional[str] = ..., step_id: _Optional[str] = ..., variables: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ...) -> None: ...

class RetryStepResponse(_message.Message):
    __slots__ = ("instance",)
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    instance: WorkflowInstance
    def __init__(self, instance: _Optional[_Union[WorkflowInstance, _Mapping]] = ...) -> None: ...
