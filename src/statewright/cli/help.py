"""``statewright help``: the pages that a service serves at ``/help``, without a service
(docs/reference/service.md#help).
"""

import json
import sys
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from enum import StrEnum
from importlib import metadata
from typing import Annotated, Final, NoReturn

import typer

from statewright.cli.client import report

UNKNOWN: Final = 2
"""The exit code for a topic, an action or a tag that does not exist."""

TEXT_WIDTH: Final = 100

Page = Mapping[str, object]


class HelpFormat(StrEnum):
    """How a page is shown."""

    AUTO = "auto"
    TEXT = "text"
    MARKDOWN = "markdown"
    MD = "md"
    JSON = "json"
    YAML = "yaml"


Words = Annotated[
    list[str] | None,
    typer.Argument(
        help="The topic, maybe with an action: `workflows`, `errors CONFLICT`, `grpc proto`.", metavar="TOPIC"
    ),
]
Form = Annotated[
    HelpFormat,
    typer.Option(
        "--format",
        help="`auto` is `text` on a terminal and `markdown` elsewhere; `json` is the descriptor that a service serves;"
        " `yaml` is for `openapi`.",
    ),
]


def show_help(topic: Words = None, form: Form = HelpFormat.AUTO) -> None:
    """Show a page of help, or the raw output of an action; without a topic, which there are."""
    parts = [part for word in topic or () for part in word.replace("/", ".").split(".") if part]
    name, pages = ".".join(parts), _read_pages()
    if form is HelpFormat.YAML and parts[:1] != ["openapi"]:
        _refuse(f"{name or 'the list of topics'} is not to be had as YAML; only openapi is")
    if not name:
        _list_topics(pages, form)
    elif name == "config.all" and form is not HelpFormat.JSON:
        _list_settings()
    elif (page := pages.get(name)) is not None and form is not HelpFormat.YAML:
        _show_page(page, form)
    elif (output := _run_action(parts, form)) is not None:
        sys.stdout.buffer.write(output)
        sys.stdout.flush()
    else:
        _refuse_unknown(name, pages)


def _list_topics(pages: Mapping[str, Page], form: HelpFormat) -> None:
    if form is HelpFormat.JSON:
        topics = list(pages.values())
        typer.echo(
            json.dumps({"schema": 1, "version": metadata.version("statewright"), "topics": topics}, ensure_ascii=False)
        )
        return
    typer.echo("\n".join(f"{id_:32} {page['title']}" for id_, page in pages.items()))


def _show_page(page: Page, form: HelpFormat) -> None:
    if form is HelpFormat.JSON:
        typer.echo(json.dumps(page, indent=2, ensure_ascii=False))
    elif form is HelpFormat.TEXT or (form is HelpFormat.AUTO and sys.stdout.isatty()):
        from rich.console import Console
        from rich.markdown import Markdown

        console = Console()
        Console(width=min(console.width, TEXT_WIDTH)).print(Markdown(str(page["body"])))
    else:
        typer.echo(page["body"])


def _list_settings() -> None:
    """The variables of the service, a line each."""
    for row in json.loads(_run_action(["config", "all"], HelpFormat.JSON) or b'{"vars": []}')["vars"]:
        default = f" [{row['default']}]" if "default" in row else ""
        typer.echo(f"{row['name']} ({row['type']}){default}: {row['description']}")


def _run_action(parts: Sequence[str], form: HelpFormat) -> bytes | None:
    """The raw output of an action, or of a tag of ``openapi``; None when there is no such thing."""
    try:
        from statewright.api.http.help import Help
    except ModuleNotFoundError:
        return None
    if parts[:1] == ["openapi"] and parts[1:] != ["tags"]:
        return _describe_operations(".".join(parts[1:]), form)
    return Help("").run_action(parts)


def _describe_operations(slug: str, form: HelpFormat) -> bytes | None:
    from statewright.api.http.help import build_openapi_slice

    document = build_openapi_slice(None if slug in {"", "json", "yaml"} else slug)
    if document is None:
        return None
    if form is HelpFormat.YAML or slug == "yaml":
        import yaml

        return yaml.safe_dump(document, sort_keys=False, allow_unicode=True, encoding="utf-8")
    return json.dumps(document, indent=2, ensure_ascii=False).encode() + b"\n"


def _refuse_unknown(name: str, pages: Mapping[str, Page]) -> NoReturn:
    nearest = get_close_matches(name, pages, n=1)
    guess = f"did you mean {nearest[0]}? " if nearest else ""
    _refuse(f"there is no topic {name}; {guess}`statewright help` lists them")


def _refuse(problem: str) -> NoReturn:
    report(problem)
    raise typer.Exit(UNKNOWN)


def _read_pages() -> Mapping[str, Page]:
    """The descriptors by topic; without the service installed only those of the documentation."""
    try:
        from statewright.api.http.help import Help
    except ModuleNotFoundError:
        from statewright.documentation.sources import read_documents

        return {id_: {"topic": id_, "title": title, "body": text} for id_, title, text, _ in read_documents()}
    return Help("").describe_topics()
