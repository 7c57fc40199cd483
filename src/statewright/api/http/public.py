"""What HTTP serves without a bearer token (docs/reference/authentication.md#routes-without-credentials)."""

import asyncio
import hashlib
from collections.abc import Callable
from functools import cache, partial
from typing import Final

import msgspec

from statewright.api.http.help import Help
from statewright.api.http.openapi import build_openapi_document, render_docs_page
from statewright.api.http.openapi.page import EXPLORER_FILES, ExplorerFile
from statewright.api.http.request import Request
from statewright.api.http.response import Response
from statewright.api.http.router import Endpoint, PublicRoute
from statewright.api.http.security import PAGE_HEADERS
from statewright.auth import JwkSet, TokenRequest, TokenService
from statewright.failures import BodyTooLarge, PathNotFound

HTML: Final = "text/html; charset=utf-8"
MAX_FORM_BYTES: Final = 1024 * 1024

_KEPT: Final = ((b"cache-control", b"public, max-age=31536000, immutable"),)
"""Of files whose paths change with them."""

JWKS_CACHING: Final = b"public, max-age=60"
"""How long others may believe the published keys; one that signs newly is looked for by its id sooner."""

_encode = msgspec.json.Encoder().encode


def build_public_routes(
    context_path: str, *, tokens: TokenService, keys: Callable[[], JwkSet] | None
) -> list[PublicRoute]:
    """The public routes of a service; ``keys`` is None in mock mode, which publishes none."""
    routes = [
        PublicRoute(method="GET", path=f"{context_path}/health", endpoint=_check_health, is_probe=True),
        PublicRoute(method="ANY", path=f"{context_path}/help", endpoint=_build_help(context_path), is_tree=True),
        PublicRoute(method="GET", path="/openapi.json", endpoint=_build_openapi(context_path)),
        PublicRoute(method="GET", path="/docs", endpoint=_build_docs(context_path)),
        *(PublicRoute(method="GET", path=file.path, endpoint=_build_file(file)) for file in EXPLORER_FILES),
        PublicRoute(method="POST", path=f"{context_path}/oauth/token", endpoint=_build_token(tokens)),
    ]
    well_known = f"{context_path}/.well-known"
    routes.append(PublicRoute(method="GET", path=well_known, endpoint=_find_nothing, is_tree=True))
    if keys is not None:
        routes.append(PublicRoute(method="GET", path=f"{well_known}/jwks.json", endpoint=_build_jwks(keys)))
    return routes


async def _find_nothing(_request: Request) -> Response:
    """Raises ``PathNotFound``. Clients look there for what a service may offer; that it does not is no secret."""
    raise PathNotFound


async def _check_health(_request: Request) -> Response:
    return Response(b'{"status":"UP"}\n')


# What is made from the tables of the program takes a while the first time: too much of the event loop, and of a start,
# too.

_get_document: Final = cache(build_openapi_document)


def _build_docs(context_path: str) -> Endpoint:
    @cache
    def render() -> Response:
        return Response(render_docs_page(_get_document(), context_path), media_type=HTML, headers=PAGE_HEADERS)

    async def docs(_request: Request) -> Response:
        return await asyncio.to_thread(render)

    return docs


def _build_file(file: ExplorerFile) -> Endpoint:
    async def explorer_file(_request: Request) -> Response:
        content = await asyncio.to_thread(file.read)
        return Response(content, media_type=file.media_type, headers=_KEPT)

    return explorer_file


def _build_help(context_path: str) -> Endpoint:
    get_pages = cache(partial(Help, f"{context_path}/help"))

    async def pages_of_help(request: Request) -> Response:
        pages = await asyncio.to_thread(get_pages)
        return pages.answer(request.scope)

    return pages_of_help


def _build_openapi(context_path: str) -> Endpoint:
    async def openapi(request: Request) -> Response:
        document = await asyncio.to_thread(_get_document)
        server = {"url": f"{request.origin}{context_path}"}
        return Response(_encode(document | {"servers": [server]}) + b"\n")

    return openapi


def _build_jwks(keys: Callable[[], JwkSet]) -> Endpoint:
    async def jwks(request: Request) -> Response:
        body = _encode(keys()) + b"\n"
        tag = b'"%s"' % hashlib.sha256(body).hexdigest()[:32].encode()
        headers = ((b"cache-control", JWKS_CACHING), (b"etag", tag))
        asked = next((value for name, value in request.scope["headers"] if name == b"if-none-match"), b"")
        if tag in asked or asked == b"*":
            return Response(b"", 304, "", headers)
        return Response(body, headers=headers)

    return jwks


def _build_token(tokens: TokenService) -> Endpoint:
    async def token(request: Request) -> Response:
        authorization = request.headers.get(b"authorization")
        content_type = request.headers.get(b"content-type")
        reply = await tokens.issue(
            TokenRequest(
                authorization=authorization.decode("latin-1") if authorization is not None else None,
                content_type=content_type.decode("latin-1") if content_type is not None else None,
                body=await _read_form(request),
                query=request.query_string.decode("latin-1"),
                address=request.address,
            )
        )
        extra = tuple((name.encode(), value.encode()) for name, value in reply.headers.items())
        return Response(reply.body, reply.status, headers=extra)

    return token


async def _read_form(request: Request) -> bytes:
    """The body, cut off where it grows too large: what is cut no longer parses and is refused as any bad form is."""
    try:
        return await request.body(MAX_FORM_BYTES)
    except BodyTooLarge:
        return b""
