"""The page that shows the document to people.

It is complete as it leaves the server, without scripts. Where these run, an explorer takes its place, in which one can
search and try operations; its files come from this service, too (docs/reference/service.md#openapi).

The files of the API explorer that ``/docs`` starts: served by this service, pinned by their hashes.

``explorer/README.md`` says where they are from. A browser runs a script of the page only if it has the hash that the
page says (subresource integrity), and a test holds the files against what is written here.
"""

import base64
import hashlib
import json
from collections.abc import Iterable
from functools import cache
from html import escape
from importlib import resources
from typing import Final

from msgspec import Struct

from statewright.api.http.openapi.operations import Document, order_tag

VERSION: Final = "5.35.0"
"""Of swagger-ui-dist; part of the paths, so that browsers may keep the files for ever."""

PREFIX: Final = f"/docs/{VERSION}"


class ExplorerFile(Struct, frozen=True, kw_only=True):
    """A file that the page loads. ``sha384`` in base64; None for one of ours, whose hash is taken when it is read."""

    name: str
    media_type: str
    sha384: str | None = None

    @property
    def path(self) -> str:
        """Where it is served: a file of ours has its hash in its path, since it may change with any version."""
        return f"{PREFIX}/{self.name}" if self.sha384 else f"/docs/{_read_digest(self.name).hex()[:12]}/{self.name}"

    @property
    def integrity(self) -> str:
        """What the page says of it."""
        return f"sha384-{self.sha384 or base64.b64encode(_read_digest(self.name)).decode()}"

    def read(self) -> bytes:
        """Its content; from the disk once."""
        return _read(self.name)


SCRIPT: Final = ExplorerFile(
    name="swagger-ui-bundle.js",
    media_type="text/javascript; charset=utf-8",
    sha384="gjRm0bEPMeTmMh5jT2cHccIwCUZSTd8YC+j0d0sXw0MdGEfScduGpSyF3ZSSLkX9",
)
STYLE: Final = ExplorerFile(
    name="swagger-ui.css",
    media_type="text/css; charset=utf-8",
    sha384="WlYgdmXYOOBWL5apwjDEZwN+U3HmXSSu5R6V5aGxEcf7z+KuRNwBhoxKVN1i3D5I",
)
START: Final = ExplorerFile(name="docs.js", media_type="text/javascript; charset=utf-8")

EXPLORER_FILES: Final = (SCRIPT, STYLE, START)


@cache
def _read(name: str) -> bytes:
    return resources.files("statewright.api.http.openapi").joinpath("explorer", name).read_bytes()


@cache
def _read_digest(name: str) -> bytes:
    return hashlib.sha384(_read(name)).digest()


_STYLE: Final = """
:root { color-scheme: light dark; --line: #8884; --faint: #8881; --blue: #3b82f6; --green: #16a34a; --red: #dc2626; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
h2 { margin-top: 2.5rem; border-bottom: 1px solid var(--line); }
h3 { font-size: 1em; margin: 1.2em 0 .3em; }
nav a { margin-right: 1em; white-space: nowrap; }
details { border: 1px solid var(--line); border-radius: 6px; margin: .4rem 0; }
summary { padding: .4rem .7rem; cursor: pointer; overflow-wrap: anywhere; }
details[open] > summary { border-bottom: 1px solid var(--line); }
.inside { padding: 0 .9rem .9rem; }
.method { display: inline-block; min-width: 4.5em; font: bold .85em ui-monospace, monospace; color: var(--blue); }
.POST, .PUT, .PATCH { color: var(--green); } .DELETE { color: var(--red); }
.says { opacity: .75; margin-left: .6em; }
code, pre { font: .9em/1.4 ui-monospace, monospace; }
pre { background: var(--faint); border-radius: 6px; padding: .6rem .8rem; margin: .3rem 0; overflow-x: auto; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: .2rem .8rem .2rem 0; border-bottom: 1px solid var(--line); }
"""


def render_docs_page(document: Document, context_path: str) -> bytes:
    """The page; paths are shown as they are called."""
    by_tag = _group_by_tag(document, context_path)
    info = document["info"]
    parts = [
        f"<h1>{escape(info['title'])} API</h1>",
        f"<p>{escape(info['description'])} The machine-readable form is <a href='/openapi.json'>/openapi.json</a>.</p>",
        f"<nav>{' '.join(_render_link(tag) for tag in (*by_tag, 'Schemas'))}</nav>",
        *(_render_section(tag, operations) for tag, operations in by_tag.items()),
        _render_section(
            "Schemas", (_render_schema(name, shape) for name, shape in document["components"]["schemas"].items())
        ),
    ]
    page = f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{escape(info["title"])} API</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="stylesheet" href="{STYLE.path}" integrity="{STYLE.integrity}">
<style>{_STYLE}</style></head>
<body><div id="explorer"></div><main id="built-in">{"".join(parts)}</main>
{_render_script(SCRIPT)}
{_render_script(START, f' data-context-path="{escape(context_path, quote=True)}"')}</body></html>
"""
    return page.encode()


def _render_script(file: ExplorerFile, data: str = "") -> str:
    return f'<script defer src="{file.path}" integrity="{file.integrity}"{data}></script>'


def _group_by_tag(document: Document, context_path: str) -> dict[str, list[str]]:
    by_tag: dict[str, list[str]] = {}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            called = path if "servers" in operation else f"{context_path}{path}"
            by_tag.setdefault(operation["tags"][0], []).append(_render_operation(method.upper(), called, operation))
    return dict(sorted(by_tag.items(), key=lambda entry: order_tag(entry[0])))


def _render_link(tag: str) -> str:
    return f"<a href='#{_build_anchor(tag)}'>{escape(tag)}</a>"


def _render_section(tag: str, entries: Iterable[str]) -> str:
    return f"<h2 id='{_build_anchor(tag)}'>{escape(tag)}</h2>{''.join(entries)}"


def _build_anchor(tag: str) -> str:
    return escape(tag.lower().replace(" ", "-"), quote=True)


def _render_operation(method: str, path: str, operation: Document) -> str:
    head = f"<span class='method {method}'>{method}</span><code>{escape(path)}</code>"
    body = [_render_parameters(operation["parameters"])]
    if "requestBody" in operation:
        body.append(_render_content("Body", "", operation["requestBody"]))
    body += [
        _render_content(status, answer["description"], answer) for status, answer in operation["responses"].items()
    ]
    return _render_entry(f"{head}<span class='says'>{escape(operation['summary'])}</span>", "".join(body))


def _render_parameters(parameters: list[Document]) -> str:
    if not parameters:
        return ""
    rows = "".join(_render_parameter(parameter) for parameter in parameters)
    return f"<h3>Parameters</h3><table><tr><th>Name<th>In<th>Type<th>Example<th>Meaning</tr>{rows}</table>"


def _render_parameter(parameter: Document) -> str:
    schema = parameter["schema"]
    name = parameter["name"] + ("" if parameter.get("required") else " (optional)")
    kind = f"{schema.get('type', '')} {schema.get('format', '')}".strip()
    example = parameter.get("example", "")
    shown = example if isinstance(example, str) else json.dumps(example)
    cells = (name, parameter["in"], kind, shown, parameter.get("description", ""))
    return f"<tr>{''.join(f'<td>{escape(cell)}' for cell in cells)}</tr>"


def _render_content(title: str, description: str, described: Document) -> str:
    """A body that is sent or received, with its example in every media type that has one."""
    parts = [f"<h3>{escape(title)} <span class='says'>{escape(description)}</span></h3>"]
    for media_type, shape in described.get("content", {}).items():
        schema = shape["schema"].get("$ref", "").rpartition("/")[2]
        of = f" of <a href='#schema-{escape(schema)}'>{escape(schema)}</a>" if schema else ""
        parts.append(f"<div><code>{escape(media_type)}</code>{of}</div>")
        if "example" in shape:
            parts.append(_render_json(shape["example"]))
    return "".join(parts)


def _render_schema(name: str, shape: Document) -> str:
    return _render_entry(f"<code id='schema-{escape(name)}'>{escape(name)}</code>", _render_json(shape))


def _render_entry(head: str, body: str) -> str:
    return f"<details><summary>{head}</summary><div class='inside'>{body}</div></details>\n"


def _render_json(value: object) -> str:
    return f"<pre>{escape(json.dumps(value, indent=2, ensure_ascii=False))}</pre>"
