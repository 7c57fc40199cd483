"""Which nodes there are (docs/reference/operations.md#nodes)."""

from statewright.services.ops.lists import Page, PageRequest, build_page
from statewright.services.runtime import Caller, Runtime
from statewright.storage.ops import nodes
from statewright.storage.ops.nodes import NodeKey as NodeKey
from statewright.storage.ops.nodes import ObservedNode as ObservedNode


async def list_nodes(runtime: Runtime, caller: Caller, page: PageRequest[NodeKey]) -> Page[ObservedNode, NodeKey]:
    """The nodes of the installation that are alive, by id; their members are those of the tenant."""
    found = await nodes.list_nodes(runtime.pool, caller.tenant, limit=page.size + 1, after=page.after)
    total = await nodes.count_nodes(runtime.pool, limit=page.count_up_to) if page.counts else None
    return build_page(page, found, lambda node: NodeKey(node.id), total)
