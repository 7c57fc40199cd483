"""Bodies and answers about models (docs/reference/models.md#models)."""

from typing import Final

from statewright.api.http.openapi.operations import (
    ANY_OBJECT,
    FLAG,
    INSTANT,
    INT32,
    INT64,
    OBJECT_OR_ARRAY,
    TEXT,
    UUID,
    Document,
    allow_null,
    define_array,
    define_object,
    define_open_object,
    ref,
)
from statewright.api.http.openapi.struct_schemas import describe_structs
from statewright.conditions.wire import describe_conditions
from statewright.operations.entity_answers import GroupTally, ModelTally, StateTally, TrailPage, TrailRecord
from statewright.workflow.json_schema import describe_workflows

MODELS: Final[Document] = {
    "Document": {"description": "a JSON document of the model", **OBJECT_OR_ARRAY},
    "ModelKey": define_object("name version", name=TEXT, version=INT32),
    "Model": define_object(
        "id modelName modelVersion currentState modelUpdateDate",
        id=UUID,
        modelName=TEXT,
        modelVersion=INT32,
        currentState={"type": "string", "enum": ["LOCKED", "UNLOCKED"]},
        modelUpdateDate=INSTANT,
    ),
    "Models": define_array(ref("Model")),
    "ModelId": UUID,
    "ModelImportResult": {
        "oneOf": [ref("ModelId"), define_object("modelId warnings", modelId=UUID, warnings=define_array(TEXT))],
        "description": "the id alone, but an object with ?warnings=true",
    },
    "ModelExport": define_object(
        "currentState model", currentState=TEXT, model=ANY_OBJECT, uniqueKeys=define_array(ANY_OBJECT)
    ),
    "ModelAction": define_object(
        "success message modelId modelKey", success=FLAG, message=TEXT, modelId=UUID, modelKey=ref("ModelKey")
    ),
    "UniqueKeys": {
        "type": "object",
        "properties": {
            "uniqueKeys": {
                "type": ["array", "null"],
                "items": define_object(
                    "id fields", id=TEXT, fields=define_array({"type": "string", "examples": ["$.orderNo"]})
                ),
            }
        },
    },
}


# Bodies and answers about workflows (docs/reference/workflows.md#workflows).

WORKFLOWS: Final[Document] = {
    **describe_workflows(ref),
    "WorkflowImportResult": define_object(
        "success",
        success=FLAG,
        dryRun=FLAG | {"description": "only with ?dryRun=true: nothing was saved"},
        warnings=define_array(
            define_object(
                "workflow state transition message",
                workflow=TEXT,
                state={"type": ["string", "null"]},
                transition={"type": ["string", "null"]},
                message=TEXT,
            )
        )
        | {"description": "only with ?warnings=true or ?dryRun=true; 100 at most"},
    ),
    "WorkflowExport": define_object(
        "entityName modelVersion workflows",
        entityName=TEXT,
        modelVersion=INT32,
        workflows=define_array(ref("Workflow")),
    ),
}


# Bodies and answers about entities (docs/reference/entities.md#entities-and-messages).

ENTITIES: Final[Document] = {
    "Meta": define_object(
        "id modelKey state creationDate lastUpdateTime transactionId",
        id=UUID,
        modelKey=ref("ModelKey"),
        state=TEXT,
        creationDate=INSTANT,
        lastUpdateTime=INSTANT,
        transactionId=UUID,
        transitionForLatestSave=TEXT,
        pointInTime=INSTANT,
    ),
    "Envelope": define_object("type data meta", type={"const": "ENTITY"}, data={}, meta=ref("Meta")),
    "Envelopes": define_array(ref("Envelope")),
    "TransactionResult": define_object("transactionId entityIds", transactionId=UUID, entityIds=define_array(UUID)),
    "ChunkResult": {
        "description": "a committed transaction, or as the last one why a later chunk was not committed",
        "type": "object",
        "properties": {
            "transactionId": UUID,
            "entityIds": define_array(UUID),
            "failed": define_array(
                define_object(
                    "entityId error",
                    entityId=UUID,
                    error=define_object("code message itemIndex", code=TEXT, message=TEXT, itemIndex=INT32),
                )
            ),
            "error": define_object("code message chunkIndex", code=TEXT, message=TEXT, chunkIndex=INT32),
        },
        "required": ["entityIds"],
        "additionalProperties": False,
    },
    "TransactionResults": define_array(ref("ChunkResult")),
    "NewItems": define_array(
        {
            "type": "object",
            "properties": {
                "model": ref("ModelKey"),
                "payload": {"type": "string", "description": "the document as JSON text"},
            },
            "required": ["model", "payload"],
        }
    ),
    "ChangedItems": define_array(
        {
            "type": "object",
            "properties": {
                "id": UUID,
                "payload": {"type": "string", "description": "the document as JSON text"},
                "transition": {"type": ["string", "null"], "description": "none: a loopback"},
                "ifMatch": {"type": ["string", "null"], "description": "the transactionId it must still have"},
            },
            "required": ["id", "payload"],
        }
    ),
    "Patch": {"description": "a JSON Merge Patch, or an array of JSON Patch operations"},
    "ModelDeletion": define_object(
        "entityModelClassId deleteResult",
        entityModelClassId=UUID,
        deleteResult=define_object(
            "numberOfEntitites numberOfEntititesRemoved idToError",
            numberOfEntitites=INT64,
            numberOfEntititesRemoved=INT64,
            idToError={"type": "object", "additionalProperties": TEXT},
        ),
        ids=define_array(UUID),
    ),
    "Deleted": define_object("id modelKey transactionId", id=UUID, modelKey=ref("ModelKey"), transactionId=UUID),
    "Actor": define_object("id kind", id=TEXT, kind={"type": "string", "enum": ["user", "service", "system"]}),
    "Change": define_object(
        "changeType timeOfChange user",
        changeType={"type": "string", "enum": ["CREATE", "UPDATE", "DELETE"]},
        timeOfChange=INSTANT,
        user=TEXT,
        attributedKind=TEXT,
        executedBy=ref("Actor"),
        transactionId=UUID,
    ),
    "Changes": define_array(ref("Change")),
    "Names": define_array(TEXT),
}


# Bodies and answers of statistics (docs/reference/entities.md#entities-and-messages).

STATISTICS: Final[Document] = {
    "Counts": define_array(ref("Count")),
    "GroupedQuery": define_object(
        "groupBy",
        groupBy=define_array(TEXT)
        | {"minItems": 1, "description": "`state`, or paths of scalars such as `$.warehouse`"},
        condition={**allow_null(ANY_OBJECT), "description": "a search condition"},
        aggregations=define_array(
            {
                "type": "object",
                "properties": {
                    "op": {"type": "string", "enum": ["sum", "avg", "min", "max", "stdev"]},
                    "field": TEXT,
                    "as": TEXT,
                },
                "required": ["op", "field"],
                "additionalProperties": False,
            }
        ),
        pointInTime=INSTANT,
        limit={"type": "integer", "minimum": 1},
    ),
}


# Answers about what has happened to an entity (docs/reference/entities.md#entities-and-messages).

ENTITY_RECORDS: Final[dict[str, object]] = {
    "Count": ModelTally,
    "StateCounts": tuple[StateTally, ...],
    "Groups": tuple[GroupTally, ...],
    "AuditItem": TrailRecord,
    "AuditPage": TrailPage,
}


# Conditions (docs/reference/conditions.md#form).

CONDITIONS: Final[Document] = dict(describe_conditions(ref).items())


# Bodies and answers of searches, search jobs and indexes (docs/reference/search.md#search).

_JOB_STATES: Final = {"type": "string", "enum": ["RUNNING", "SUCCESSFUL", "FAILED", "CANCELLED"]}
_INDEX_TYPES: Final = {"type": "string", "enum": ["TEXT", "NUMBER", "BOOLEAN", "DOCUMENT"]}
_JOB_MEMBERS: Final = "createTime entitiesCount calculationTimeMillis expirationDate"


def _describe_message(content: Document) -> Document:
    header = define_object(
        "subject contentType contentLength contentEncoding",
        subject=TEXT,
        contentType=TEXT,
        contentLength=INT64,
        contentEncoding=TEXT,
        messageId=TEXT,
        userId=TEXT,
        recipient=TEXT,
        replyTo=TEXT,
        correlationId=TEXT,
    )
    return define_object("header metaData content", header=header, metaData=ANY_OBJECT, content=content)


_JOB: Final = {
    "createTime": INSTANT,
    "finishTime": INSTANT,
    "entitiesCount": INT64,
    "calculationTimeMillis": INT64,
    "expirationDate": INSTANT,
}

SEARCH: Final[Document] = {
    "WantedIndex": {
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "the field; `$` for the whole document"},
            "type": _INDEX_TYPES,
            "state": {"type": "string", "description": "only entities in this state"},
        },
        "required": ["path"],
        "additionalProperties": False,
    },
    "SearchIndex": define_object(
        "id path type status",
        id=TEXT,
        path=TEXT,
        type=_INDEX_TYPES,
        state=TEXT,
        status={"type": "string", "enum": ["BUILDING", "READY", "FAILED", "DROPPING"]},
        failure=TEXT,
        progress=define_object("phase percent", phase=TEXT, percent=INT32),
    ),
    "Explanation": define_object(
        "sql arguments judged plan",
        sql=TEXT,
        arguments=define_array(TEXT),
        judged=define_array(TEXT),
        plan=define_array(TEXT),
    ),
    "SearchIndexes": define_array(ref("SearchIndex")),
    "JobId": UUID,
    "JobStatus": define_object(f"searchJobStatus {_JOB_MEMBERS}", searchJobStatus=_JOB_STATES, **_JOB),
    "SnapshotStatus": define_object(f"snapshotStatus {_JOB_MEMBERS}", snapshotStatus=_JOB_STATES, **_JOB),
    "JobResults": define_object("content page", content=define_array(ref("Envelope")), page=ref("Page")),
    "SnapshotResults": define_object(
        "_embedded page",
        _embedded=define_object("objectNodes", objectNodes=define_array(ref("Envelope"))),
        page=ref("Page"),
    ),
    "Page": define_object(
        "number size totalElements totalPages", number=INT32, size=INT32, totalElements=INT64, totalPages=INT32
    ),
    "JobCancellation": define_object(
        "isCancelled cancelled currentSearchJobStatus",
        isCancelled=FLAG,
        cancelled=FLAG,
        currentSearchJobStatus=_JOB_STATES,
    ),
    "JobFailure": define_object(
        "searchJobStatus reason", searchJobStatus=_JOB_STATES, reason={"type": ["string", "null"]}
    ),
}


# Bodies and answers of edge messages (docs/reference/entities.md#entities-and-messages).

MESSAGES: Final[Document] = {
    "NewMessage": {
        "type": "object",
        "properties": {"payload": {"description": "any JSON"}, "metaData": ANY_OBJECT},
        "required": ["payload"],
    },
    "Message": _describe_message({"description": "the payload as it came"}),
    "MessageWithText": _describe_message({"type": "string", "description": "the payload as a text that holds JSON"}),
    "Ids": define_array(UUID),
    "DeletedMessage": define_object("entityIds", entityIds=define_array(UUID)),
    "DeletedMessages": define_array(define_object("entityIds success", entityIds=define_array(UUID), success=FLAG)),
}


# Bodies and answers of operating the service, and what several kinds of requests have in common.

_SAMPLER: Final = {"type": "string", "enum": ["always", "never", "ratio"]}
_RATIO: Final = {"type": "number", "exclusiveMinimum": 0, "maximum": 1}
_LEVEL: Final = {"type": "string", "enum": ["debug", "info", "warn", "error"]}

OPERATIONS: Final[Document] = {
    "Success": define_object("success", success=FLAG),
    "Pruning": define_object("removed keptFrom complete", removed=INT64, keptFrom=INSTANT, complete=FLAG),
    "LogLevel": define_object("level", level=_LEVEL),
    "LogLevelChange": define_object("level previous", level=_LEVEL, previous=_LEVEL),
    "TraceSampler": define_object("sampler parent_based", sampler=_SAMPLER, ratio=_RATIO, parent_based=FLAG),
    "TraceSamplerChange": define_open_object("sampler", sampler=_SAMPLER, ratio=_RATIO, parent_based=FLAG),
    "Account": define_object("userAccountInfo", userAccountInfo=ANY_OBJECT),
    "HelpTopic": define_object(
        "topic path title synopsis body sections see_also stability actions",
        topic=TEXT,
        path=define_array(TEXT),
        title=TEXT,
        synopsis=TEXT,
        body=TEXT,
        sections=define_array(define_object("name body", name=TEXT, body=TEXT)),
        see_also=define_array(TEXT),
        stability={"type": "string", "enum": ["stable", "evolving", "experimental"]},
        actions=define_array(TEXT),
        children=define_array(TEXT),
    ),
    "Problem": define_object(
        "type title status detail instance properties",
        type={"type": "string", "format": "uri-reference", "description": "the page of help about the code"},
        title=TEXT,
        status={"type": "integer"},
        detail=TEXT,
        instance=TEXT,
        ticket=UUID,
        properties={
            "type": "object",
            "properties": {"errorCode": TEXT, "retryable": FLAG},
            "required": ["errorCode"],
        },
    ),
}


# Bodies and answers about clients and keys (docs/reference/authentication.md#keys).

_ROLES: Final = define_array({"type": "string", "examples": ["ROLE_M2M"]})
_JWK: Final = {**ANY_OBJECT, "description": "a public RSA key (RFC 7517)"}
_AUDIENCE: Final = {"type": "string", "enum": ["client", "human"]}
_GRACE: Final = {"type": ["integer", "null"], "minimum": 0, "maximum": 31_622_400, "examples": [600]}
_DISCOVERY_URI: Final = {
    "type": "string",
    "maxLength": 1000,
    "examples": ["https://login.example.org/.well-known/openid-configuration"],
}
_OIDC_NAMES: Final = {"type": ["array", "null"], "maxItems": 10, "items": {"type": "string", "minLength": 1}}
_OIDC_CLAIM: Final = {"type": ["string", "null"], "maxLength": 100}
_CLIENT_ID: Final = {"type": "string", "examples": ["3F0KQ9V2B1C7TD5E"]}

IDENTITY: Final[Document] = {
    "Clients": define_array(
        define_object(
            "clientId creationDate lastUpdateDate roles",
            clientId=_CLIENT_ID,
            creationDate=INSTANT,
            lastUpdateDate=INSTANT,
            roles=_ROLES,
        )
    ),
    "ClientCredentials": define_object(
        "client_id client_secret grant_type client_secret_expires_at roles",
        client_id=_CLIENT_ID,
        client_secret=TEXT,
        grant_type={"const": "client_credentials"},
        client_secret_expires_at={"const": 0, "description": "it does not expire"},
        roles=_ROLES,
    ),
    "NewKeyPair": define_open_object(
        "algorithm audience",
        algorithm={"const": "RS256"},
        audience=_AUDIENCE,
        validFrom=INSTANT,
        validTo=INSTANT,
        invalidateCurrent=FLAG,
        invalidateGracePeriodSec=_GRACE,
    ),
    "KeyPair": define_object(
        "active algorithm keyId publicKey validFrom validTo",
        active=FLAG,
        algorithm={"const": "RS256"},
        keyId=TEXT,
        publicKey={"type": "string", "description": "base64 of the DER SubjectPublicKeyInfo"},
        validFrom=INSTANT,
        validTo=INSTANT,
    ),
    "NewTrustedKey": define_open_object(
        "keyId jwk audience",
        keyId={"type": "string", "pattern": "^[A-Za-z0-9._-]{1,128}$"},
        jwk=_JWK,
        audience=_AUDIENCE,
        issuers={"type": ["array", "null"], "items": TEXT},
        validFrom=INSTANT,
        validTo=INSTANT,
        invalidatePrevious=FLAG,
        invalidateGracePeriodSec=_GRACE,
    ),
    "TrustedKey": define_object(
        "keyId legalEntityId jwk audience active validFrom validTo",
        keyId=TEXT,
        legalEntityId={"type": "string", "description": "the tenant"},
        jwk=_JWK,
        audience=_AUDIENCE,
        active=FLAG,
        validFrom=INSTANT,
        validTo=INSTANT,
        issuers=define_array(TEXT),
    ),
    "TrustedKeys": define_array(ref("TrustedKey")),
    "OidcProvider": define_object(
        "id active createdAt wellKnownConfigUri",
        id=UUID,
        active=FLAG,
        createdAt=INSTANT,
        wellKnownConfigUri=_DISCOVERY_URI,
        issuers=define_array(TEXT),
        expectedAudiences=define_array(TEXT),
        rolesClaim=TEXT,
    ),
    "OidcProviders": define_array(ref("OidcProvider")),
    "NewOidcProvider": define_open_object(
        "wellKnownConfigUri",
        wellKnownConfigUri=_DISCOVERY_URI,
        issuers=_OIDC_NAMES,
        expectedAudiences=_OIDC_NAMES,
        rolesClaim=_OIDC_CLAIM,
    ),
    "OidcProviderPatch": define_open_object(issuers=_OIDC_NAMES, expectedAudiences=_OIDC_NAMES, rolesClaim=_OIDC_CLAIM),
    "OidcReactivation": define_open_object(reactivateKeys={"type": ["boolean", "null"]}),
    "Grace": define_open_object(gracePeriodSec=_GRACE),
    "Validity": define_open_object("validTo", validTo=INSTANT, validFrom=INSTANT),
    "ClientDeletion": define_object("message clientId", message=TEXT, clientId=_CLIENT_ID),
}


# Every schema that the operations of the REST API refer to, by name; the step engine's are in ``openapi.steps``.

SCHEMAS: Final[Document] = {
    **MODELS,
    **WORKFLOWS,
    **ENTITIES,
    **STATISTICS,
    **describe_structs(ENTITY_RECORDS),
    **CONDITIONS,
    **SEARCH,
    **MESSAGES,
    **OPERATIONS,
    **IDENTITY,
}
