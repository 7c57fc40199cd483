"""What HTTP serves without a bearer token (spec/auth-and-operations.md §2)."""

from collections.abc import Callable, Mapping

import msgspec

from statewright.api.http.exchange import Answer
from statewright.api.http.front import ANY_BELOW, Public, PublicRequest
from statewright.api.http.help import Help
from statewright.api.http.openapi import docs_page, openapi_document
from statewright.api.http.openapi.shapes import Document
from statewright.auth import JwkSet, TokenRequest, TokenService

MAX_FORM_BYTES = 1024 * 1024

_encode = msgspec.json.Encoder().encode


def public_routes(
    context_path: str, *, tokens: TokenService, keys: Callable[[], JwkSet] | None
) -> Mapping[tuple[str, str], Public]:
    """The public routes of a service; ``keys`` is None in mock mode, which publishes none."""
    document = openapi_document()
    routes: dict[tuple[str, str], Public] = {
        ("GET", f"{context_path}/health"): _health,
        (ANY_BELOW, f"{context_path}/help"): _help(context_path),
        ("GET", "/openapi.json"): _openapi(document, context_path),
        ("GET", "/docs"): _docs(document, context_path),
        ("POST", f"{context_path}/oauth/token"): _token(tokens),
    }
    if keys is not None:
        routes["GET", f"{context_path}/.well-known/jwks.json"] = _jwks(keys)
    return routes


async def _health(_request: PublicRequest) -> Answer:
    return Answer(b'{"status":"UP"}\n')


def _docs(document: Document, context_path: str) -> Public:
    page = Answer(docs_page(document, context_path), media_type="text/html; charset=utf-8")

    async def docs(_request: PublicRequest) -> Answer:
        return page

    return docs


def _help(context_path: str) -> Public:
    pages = Help(f"{context_path}/help")

    async def pages_of_help(request: PublicRequest) -> Answer:
        return pages.answer(request.scope)

    return pages_of_help


def _openapi(document: Document, context_path: str) -> Public:
    async def openapi(request: PublicRequest) -> Answer:
        host = next((value.decode("latin-1") for key, value in request.scope["headers"] if key == b"host"), "localhost")
        server = {"url": f"{request.scope['scheme']}://{host}{context_path}"}
        return Answer(_encode(document | {"servers": [server]}) + b"\n")

    return openapi


def _jwks(keys: Callable[[], JwkSet]) -> Public:
    async def jwks(_request: PublicRequest) -> Answer:
        return Answer(_encode(keys()) + b"\n")

    return jwks


def _token(tokens: TokenService) -> Public:
    async def token(request: PublicRequest) -> Answer:
        headers: dict[bytes, bytes] = dict(request.scope["headers"])
        authorization, content_type = headers.get(b"authorization"), headers.get(b"content-type")
        reply = await tokens.token(
            TokenRequest(
                authorization=authorization.decode("latin-1") if authorization is not None else None,
                content_type=content_type.decode("latin-1") if content_type is not None else None,
                body=await _form(request),
                query=request.scope["query_string"].decode("latin-1"),
            )
        )
        return Answer(reply.body, reply.status)

    return token


async def _form(request: PublicRequest) -> bytes:
    """The body, cut off where it grows too large: what is cut no longer parses and is refused as any bad form is."""
    body, more = b"", True
    while more and len(body) <= MAX_FORM_BYTES:
        message = await request.receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    return body if len(body) <= MAX_FORM_BYTES else b""
