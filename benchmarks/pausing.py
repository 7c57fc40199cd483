"""A calculation node whose processors take as many milliseconds as their names say: ``python -m benchmarks.pausing PORT``."""

import asyncio
import sys

import uvloop

from statewright.sdk import Context, Node

TAG = "pausing"
PAUSES_MS = (0, 50)


def a_node() -> Node:
    """Answers with the document it came with, a while later."""
    node = Node(tags=[TAG], concurrency=1000)

    async def pause(document: object, context: Context) -> object:
        await asyncio.sleep(int(context.name.rpartition("-")[2]) / 1000)
        return document

    for pause_ms in PAUSES_MS:
        node.processor(f"pause-{pause_ms}")(pause)
    return node


if __name__ == "__main__":
    uvloop.run(a_node().serve(f"127.0.0.1:{sys.argv[1]}"))
