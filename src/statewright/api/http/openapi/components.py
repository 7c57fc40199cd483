"""Bodies and answers about models (docs/reference/models.md#models)."""

from typing import Final

from statewright.api.http.openapi.operations import (
    ANY_OBJECT,
    FLAG,
    INSTANT,
    INT32,
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
from statewright.operations.entity_answers import ENTITY_ANSWERS, ImportedWorkflows, ImportReport
from statewright.operations.identity_answers import IDENTITY_ANSWERS
from statewright.services.messages import Header
from statewright.telemetry.tracing import Sampling
from statewright.workflow.json_schema import describe_workflows

ENTITY_RECORDS: Final = {**ENTITY_ANSWERS, **IDENTITY_ANSWERS, "TraceSampler": Sampling}


def _describe(record: object) -> Document:
    """The schema of a record that has no name."""
    schema: Document = describe_structs({"": record}, closed=True)[""]
    return schema


MODELS: Final[Document] = {
    "Document": {"description": "a JSON document of the model", **OBJECT_OR_ARRAY},
    "Models": define_array(ref("Model")),
    "ModelId": UUID,
    "ModelImportResult": {
        "oneOf": [ref("ModelId"), _describe(ImportReport)],
        "description": "the id alone, but an object with ?warnings=true",
    },
    "ModelExport": define_object(
        "currentState model", currentState=TEXT, model=ANY_OBJECT, uniqueKeys=define_array(ANY_OBJECT)
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
    "WorkflowImportResult": {
        "oneOf": [_describe(ImportedWorkflows), ref("OpsWorkflowCheck")],
        "description": "the second with ?dryRun=true",
    },
    "WorkflowExport": define_object(
        "entityName modelVersion workflows",
        entityName=TEXT,
        modelVersion=INT32,
        workflows=define_array(ref("Workflow")),
    ),
}


# Bodies and answers about entities (docs/reference/entities.md#entities-and-messages).

ENTITIES: Final[Document] = {
    "Envelopes": define_array(ref("Envelope")),
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


# Conditions (docs/reference/conditions.md#form).

CONDITIONS: Final[Document] = dict(describe_conditions(ref).items())


# Bodies and answers of searches, search jobs and indexes (docs/reference/search.md#search).

SEARCH: Final[Document] = {
    "SearchIndexes": define_array(ref("SearchIndex")),
    "JobId": UUID,
    "JobResults": define_object("content page", content=define_array(ref("Envelope")), page=ref("Page")),
    "SnapshotResults": define_object(
        "_embedded page",
        _embedded=define_object("objectNodes", objectNodes=define_array(ref("Envelope"))),
        page=ref("Page"),
    ),
}


# Bodies and answers of edge messages (docs/reference/entities.md#entities-and-messages).


def _define_message(content: Document) -> Document:
    return define_object("header metaData content", header=_describe(Header), metaData=ANY_OBJECT, content=content)


MESSAGES: Final[Document] = {
    "NewMessage": {
        "type": "object",
        "properties": {"payload": {"description": "any JSON"}, "metaData": ANY_OBJECT},
        "required": ["payload"],
    },
    "Message": _define_message({"description": "the payload as it came"}),
    "MessageWithText": _define_message({"type": "string", "description": "the payload as a text that holds JSON"}),
    "Ids": define_array(UUID),
}


# Bodies and answers of operating the service, and what several kinds of requests have in common.

_SAMPLER: Final = {"type": "string", "enum": ["always", "never", "ratio"]}
_RATIO: Final = {"type": "number", "exclusiveMinimum": 0, "maximum": 1}

OPERATIONS: Final[Document] = {
    "Success": define_object("success", success=FLAG),
    "TraceSamplerChange": define_open_object("sampler", sampler=_SAMPLER, ratio=_RATIO, parent_based=FLAG),
    "Account": define_object("userAccountInfo", userAccountInfo=ANY_OBJECT),
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

IDENTITY: Final[Document] = {
    "NewKeyPair": define_open_object(
        "algorithm audience",
        algorithm={"const": "RS256"},
        audience=_AUDIENCE,
        validFrom=INSTANT,
        validTo=INSTANT,
        invalidateCurrent=FLAG,
        invalidateGracePeriodSec=_GRACE,
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
    "TrustedKeys": define_array(ref("TrustedKey")),
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
}


# Every schema that the operations of the REST API refer to, by name; the step engine's are in ``openapi.steps``.

SCHEMAS: Final[Document] = {
    **MODELS,
    **WORKFLOWS,
    **ENTITIES,
    **STATISTICS,
    **describe_structs(ENTITY_RECORDS, closed=True),
    **CONDITIONS,
    **SEARCH,
    **MESSAGES,
    **OPERATIONS,
    **IDENTITY,
}
