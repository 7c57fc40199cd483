"""What needs no bearer token below the context path; the rest is described by the table of routes."""

from http import HTTPStatus
from typing import Final

from statewright.api.http.errors import PROBLEM
from statewright.api.http.openapi.shapes import TEXT, Document, define_array, define_object, define_open_object, ref

_OAUTH_ERROR: Final = define_object("error error_description", error=TEXT, error_description=TEXT)


def _describe_json(schema: Document) -> Document:
    return {"application/json": {"schema": schema}}


def _describe_public(operation_id: str, tag: str, summary: str, responses: Document, **more: object) -> Document:
    return {
        "operationId": operation_id,
        "tags": [tag],
        "summary": summary,
        "parameters": [],
        "security": [],
        "responses": {
            status: {"description": HTTPStatus(int(status)).phrase, **body} for status, body in responses.items()
        },
    } | more


PUBLIC_PATHS: Final[dict[str, Document]] = {
    "/health": {
        "get": _describe_public(
            "health",
            "Operations",
            "Whether the API serves",
            {"200": {"content": _describe_json(define_object("status", status=TEXT))}},
        )
    },
    "/help": {
        "get": _describe_public(
            "help",
            "Operations",
            "All pages of help",
            {
                "200": {
                    "content": _describe_json(
                        define_object(
                            "schema version topics",
                            schema={"const": 1},
                            version=TEXT,
                            topics=define_array(ref("HelpTopic")),
                        )
                    )
                }
            },
        )
    },
    "/help/{topic}": {
        "get": _describe_public(
            "helpTopic",
            "Operations",
            "A page of help by its dotted id, or raw output that it offers",
            {
                "200": {"content": _describe_json(ref("HelpTopic"))},
                "400": {"content": {PROBLEM: {"schema": ref("Problem")}}},
                "404": {"content": {PROBLEM: {"schema": ref("Problem")}}},
            },
            parameters=[{"name": "topic", "in": "path", "required": True, "schema": TEXT}],
        )
    },
    "/help/workflows/schema-version/versions": {
        "get": _describe_public(
            "workflowSchemaVersions",
            "Workflows",
            "Which import contracts for workflows are known",
            {"200": {"content": _describe_json({"type": "object"})}},
        )
    },
    "/help/grpc/proto": {
        "get": _describe_public(
            "grpcProtoSources",
            "Calculation members",
            "The protobuf sources of the gRPC services",
            {"200": {"content": {"text/plain": {"schema": TEXT}}}},
        )
    },
    "/help/grpc/json": {
        "get": _describe_public(
            "grpcDescriptors",
            "Calculation members",
            "The same as a FileDescriptorSet in protobuf JSON",
            {"200": {"content": _describe_json(define_object("file", file=define_array({"type": "object"})))}},
        )
    },
    "/help/workflows/schema": {
        "get": _describe_public(
            "workflowSchema",
            "Workflows",
            "The JSON Schema of workflow definitions, for editors",
            {"200": {"content": {"application/schema+json": {"schema": {"type": "object"}}}}},
        )
    },
    "/help/cloudevents/json": {
        "get": _describe_public(
            "eventSchemas",
            "Calculation members",
            "JSON Schemas of all event payloads",
            {
                "200": {
                    "content": _describe_json(
                        define_object(
                            "schema version specVersion baseId schemas",
                            schema={"const": 1},
                            version=TEXT,
                            specVersion=TEXT,
                            baseId=TEXT,
                            schemas={"type": "object"},
                        )
                    )
                }
            },
        )
    },
    "/.well-known/jwks.json": {
        "get": _describe_public(
            "jwks",
            "Identity",
            "The public keys of tokens (jwt mode)",
            {"200": {"content": _describe_json(define_object("keys", keys=define_array({"type": "object"})))}},
        )
    },
    "/oauth/token": {
        "post": _describe_public(
            "getTechnicalUserToken",
            "Identity",
            "A token for a client's credentials (RFC 6749)",
            {
                "200": {
                    "content": _describe_json(
                        define_object(
                            "access_token token_type expires_in",
                            access_token=TEXT,
                            token_type=TEXT,
                            expires_in={"type": "integer"},
                            issued_token_type=TEXT,
                        )
                    )
                },
                "400": {"content": _describe_json(_OAUTH_ERROR)},
                "401": {"content": _describe_json(_OAUTH_ERROR)},
                "403": {"content": _describe_json(_OAUTH_ERROR)},
                "429": {"content": _describe_json(_OAUTH_ERROR)},
                "500": {"content": _describe_json(_OAUTH_ERROR)},
                "503": {"content": _describe_json(_OAUTH_ERROR)},
            },
            security=[{"basicAuth": []}, {}],  # or in the form
            requestBody={
                "required": True,
                "content": {
                    "application/x-www-form-urlencoded": {
                        "schema": define_open_object(
                            "grant_type",
                            grant_type=TEXT,
                            client_id=TEXT,
                            client_secret=TEXT,
                            client_assertion_type=TEXT,
                            client_assertion=TEXT,
                            subject_token_type=TEXT,
                            subject_token=TEXT,
                        )
                    }
                },
            },
        )
    },
}
