"""``statewright help``: the pages that a service serves at ``/help``, without a service
(docs/reference/service.md#help).
"""

import json
from difflib import get_close_matches
from enum import StrEnum
from typing import Annotated

import typer

from statewright.cli.client import fail


class HelpFormat(StrEnum):
    """How a page is shown."""

    MARKDOWN = "md"
    JSON = "json"


Words = Annotated[list[str] | None, typer.Argument(help="The topic: `workflows`, `errors CONFLICT`.", metavar="TOPIC")]
Form = Annotated[HelpFormat, typer.Option("--format", help="The text, or the descriptor that a service serves.")]


def show_help(topic: Words = None, form: Form = HelpFormat.MARKDOWN) -> None:
    """Show a page of help; without a topic, which there are."""
    name = ".".join(topic or ()).replace("/", ".")
    pages = _read_pages()
    if not name:
        typer.echo("\n".join(f"{id_:32} {page['title']}" for id_, page in pages.items()))
        return
    page = pages.get(name)
    if page is None:
        nearest = get_close_matches(name, pages, n=1)
        guess = f"did you mean {nearest[0]}? " if nearest else ""
        fail(f"there is no topic {name}; {guess}`statewright help` lists them")
    typer.echo(json.dumps(page, indent=2, ensure_ascii=False) if form is HelpFormat.JSON else page["body"])


def _read_pages() -> dict[str, dict[str, object]]:
    """The descriptors by topic; without the service installed only those of the documentation."""
    try:
        from statewright.api.http.help import Help
    except ModuleNotFoundError:
        from statewright.documentation.sources import read_documents

        return {id_: {"topic": id_, "title": title, "body": text} for id_, title, text, _ in read_documents()}
    return Help("").describe_topics()
