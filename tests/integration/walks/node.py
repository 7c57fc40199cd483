"""A calculation node as a process of its own, so that its calls are not counted. Its arguments are the addresses of
gRPC and of the API, its input is the token.
"""

import asyncio
import sys

from statewright.sdk import Context, Node
from tests.builders import SAMPLE, Json

node = Node(tags=["node"])


@node.processor("check")
def check(context: Context) -> Json:
    """The document as it was."""
    return dict(SAMPLE)


if __name__ == "__main__":
    asyncio.run(node.serve(sys.argv[1], token=sys.stdin.readline().strip(), api=sys.argv[2]))
