from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class DrainRequest(_message.Message):
    __slots__ = ("tenant", "member_id", "within_ms")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
    WITHIN_MS_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    member_id: str
    within_ms: int
    def __init__(self, tenant: _Optional[str] = ..., member_id: _Optional[str] = ..., within_ms: _Optional[int] = ...) -> None: ...

class DrainReply(_message.Message):
    __slots__ = ("found",)
    FOUND_FIELD_NUMBER: _ClassVar[int]
    found: bool
    def __init__(self, found: _Optional[bool] = ...) -> None: ...

class Principal(_message.Message):
    __slots__ = ("id", "name", "kind", "tenant", "tenant_name", "roles")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    TENANT_NAME_FIELD_NUMBER: _ClassVar[int]
    ROLES_FIELD_NUMBER: _ClassVar[int]
    id: str
    name: str
    kind: str
    tenant: str
    tenant_name: str
    roles: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, id: _Optional[str] = ..., name: _Optional[str] = ..., kind: _Optional[str] = ..., tenant: _Optional[str] = ..., tenant_name: _Optional[str] = ..., roles: _Optional[_Iterable[str]] = ...) -> None: ...

class DispatchRequest(_message.Message):
    __slots__ = ("kind", "request_id", "name", "tags", "tags_text", "timeout_ms", "entity_id", "workflow", "transition", "state_from", "state_to", "target", "transaction_id", "parameters", "payload", "principal", "tx_token", "avoiding", "traceparent", "tracestate", "has_secrets")
    KIND_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    TAGS_TEXT_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    ENTITY_ID_FIELD_NUMBER: _ClassVar[int]
    WORKFLOW_FIELD_NUMBER: _ClassVar[int]
    TRANSITION_FIELD_NUMBER: _ClassVar[int]
    STATE_FROM_FIELD_NUMBER: _ClassVar[int]
    STATE_TO_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    TRANSACTION_ID_FIELD_NUMBER: _ClassVar[int]
    PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    TX_TOKEN_FIELD_NUMBER: _ClassVar[int]
    AVOIDING_FIELD_NUMBER: _ClassVar[int]
    TRACEPARENT_FIELD_NUMBER: _ClassVar[int]
    TRACESTATE_FIELD_NUMBER: _ClassVar[int]
    HAS_SECRETS_FIELD_NUMBER: _ClassVar[int]
    kind: str
    request_id: str
    name: str
    tags: _containers.RepeatedScalarFieldContainer[str]
    tags_text: str
    timeout_ms: int
    entity_id: str
    workflow: str
    transition: str
    state_from: str
    state_to: str
    target: str
    transaction_id: str
    parameters: str
    payload: bytes
    principal: Principal
    tx_token: str
    avoiding: _containers.RepeatedScalarFieldContainer[str]
    traceparent: str
    tracestate: str
    has_secrets: bool
    def __init__(self, kind: _Optional[str] = ..., request_id: _Optional[str] = ..., name: _Optional[str] = ..., tags: _Optional[_Iterable[str]] = ..., tags_text: _Optional[str] = ..., timeout_ms: _Optional[int] = ..., entity_id: _Optional[str] = ..., workflow: _Optional[str] = ..., transition: _Optional[str] = ..., state_from: _Optional[str] = ..., state_to: _Optional[str] = ..., target: _Optional[str] = ..., transaction_id: _Optional[str] = ..., parameters: _Optional[str] = ..., payload: _Optional[bytes] = ..., principal: _Optional[_Union[Principal, _Mapping]] = ..., tx_token: _Optional[str] = ..., avoiding: _Optional[_Iterable[str]] = ..., traceparent: _Optional[str] = ..., tracestate: _Optional[str] = ..., has_secrets: _Optional[bool] = ...) -> None: ...

class DispatchReply(_message.Message):
    __slots__ = ("reply", "failure")
    REPLY_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    reply: MemberReply
    failure: MemberFailure
    def __init__(self, reply: _Optional[_Union[MemberReply, _Mapping]] = ..., failure: _Optional[_Union[MemberFailure, _Mapping]] = ...) -> None: ...

class MemberReply(_message.Message):
    __slots__ = ("success", "error", "warnings", "data", "matches", "reason", "result", "result_kind", "final")
    SUCCESS_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    WARNINGS_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    MATCHES_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    RESULT_KIND_FIELD_NUMBER: _ClassVar[int]
    FINAL_FIELD_NUMBER: _ClassVar[int]
    success: bool
    error: str
    warnings: _containers.RepeatedScalarFieldContainer[str]
    data: bytes
    matches: bool
    reason: str
    result: bytes
    result_kind: str
    final: bool
    def __init__(self, success: _Optional[bool] = ..., error: _Optional[str] = ..., warnings: _Optional[_Iterable[str]] = ..., data: _Optional[bytes] = ..., matches: _Optional[bool] = ..., reason: _Optional[str] = ..., result: _Optional[bytes] = ..., result_kind: _Optional[str] = ..., final: _Optional[bool] = ...) -> None: ...

class MemberFailure(_message.Message):
    __slots__ = ("kind", "message", "written", "member_id")
    class Kind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        KIND_UNSPECIFIED: _ClassVar[MemberFailure.Kind]
        NO_MEMBER: _ClassVar[MemberFailure.Kind]
        TIMEOUT: _ClassVar[MemberFailure.Kind]
        DISCONNECTED: _ClassVar[MemberFailure.Kind]
        OTHER: _ClassVar[MemberFailure.Kind]
    KIND_UNSPECIFIED: MemberFailure.Kind
    NO_MEMBER: MemberFailure.Kind
    TIMEOUT: MemberFailure.Kind
    DISCONNECTED: MemberFailure.Kind
    OTHER: MemberFailure.Kind
    KIND_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    WRITTEN_FIELD_NUMBER: _ClassVar[int]
    MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
    kind: MemberFailure.Kind
    message: str
    written: bool
    member_id: str
    def __init__(self, kind: _Optional[_Union[MemberFailure.Kind, str]] = ..., message: _Optional[str] = ..., written: _Optional[bool] = ..., member_id: _Optional[str] = ...) -> None: ...

class Header(_message.Message):
    __slots__ = ("name", "value")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    name: bytes
    value: bytes
    def __init__(self, name: _Optional[bytes] = ..., value: _Optional[bytes] = ...) -> None: ...

class RequestHead(_message.Message):
    __slots__ = ("method", "path", "query", "headers")
    METHOD_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    QUERY_FIELD_NUMBER: _ClassVar[int]
    HEADERS_FIELD_NUMBER: _ClassVar[int]
    method: str
    path: bytes
    query: bytes
    headers: _containers.RepeatedCompositeFieldContainer[Header]
    def __init__(self, method: _Optional[str] = ..., path: _Optional[bytes] = ..., query: _Optional[bytes] = ..., headers: _Optional[_Iterable[_Union[Header, _Mapping]]] = ...) -> None: ...

class RelayRequest(_message.Message):
    __slots__ = ("head", "body")
    HEAD_FIELD_NUMBER: _ClassVar[int]
    BODY_FIELD_NUMBER: _ClassVar[int]
    head: RequestHead
    body: bytes
    def __init__(self, head: _Optional[_Union[RequestHead, _Mapping]] = ..., body: _Optional[bytes] = ...) -> None: ...

class ResponseHead(_message.Message):
    __slots__ = ("status", "headers")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    HEADERS_FIELD_NUMBER: _ClassVar[int]
    status: int
    headers: _containers.RepeatedCompositeFieldContainer[Header]
    def __init__(self, status: _Optional[int] = ..., headers: _Optional[_Iterable[_Union[Header, _Mapping]]] = ...) -> None: ...

class RelayResponse(_message.Message):
    __slots__ = ("head", "body")
    HEAD_FIELD_NUMBER: _ClassVar[int]
    BODY_FIELD_NUMBER: _ClassVar[int]
    head: ResponseHead
    body: bytes
    def __init__(self, head: _Optional[_Union[ResponseHead, _Mapping]] = ..., body: _Optional[bytes] = ...) -> None: ...
