"""``statewright node module:app`` (the command itself is declared in ``statewright.cli.main``)."""

import importlib
import sys
from collections.abc import Iterable
from pathlib import Path

from statewright.sdk import default_node
from statewright.sdk.endpoint import UnusableAddress, UnusableEndpoint, UnusableTls
from statewright.sdk.functions import UnfitSignature
from statewright.sdk.node import Node
from statewright.sdk.tokens import Token


class UnusableTarget(ValueError):
    """The target names no module, or no node in it."""


def run(
    target: str,
    *,
    endpoint: str | None = None,
    token: Token = None,
    tags: str | Iterable[str] | None = None,
    api: str | None = None,
) -> int:
    """Runs the node that ``module:name`` names until a signal stops it; the exit status of the program.

    Modules are looked for in the current directory first. Without a name it is the module's only node, or the one
    behind the module-level decorators.
    """
    try:
        node = find_node(target)
        node.run(endpoint, token=token, tags=tags, api=api)
    except (UnusableTarget, UnfitSignature, UnusableEndpoint, UnusableAddress, UnusableTls) as error:
        sys.stderr.write(f"statewright node: {error}\n")
        return 2
    return 0


def find_node(target: str) -> Node:
    """The node a target names. Raises :class:`UnusableTarget`."""
    module_name, _, name = target.partition(":")
    if not module_name or module_name.startswith("."):
        raise UnusableTarget(f'"{target}" names no module: it is MODULE:NODE')
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise
        is_file = module_name.endswith(".py")
        hint = f"; a module is named without .py: {module_name.removesuffix('.py')}" if is_file else ""
        raise UnusableTarget(f"there is no module {module_name}{hint}") from error
    members: dict[str, object] = vars(module)
    return _get_named_node(members, target, name) if name else _get_only_node(members, target)


def _get_named_node(members: dict[str, object], target: str, name: str) -> Node:
    if name not in members:
        nodes = sorted(known for known, member in members.items() if isinstance(member, Node))
        hint = f"; its nodes are {', '.join(nodes)}" if nodes else ""
        raise UnusableTarget(f"there is no {name} in {target.partition(':')[0]}{hint}")
    node = members[name]
    if not isinstance(node, Node):
        raise UnusableTarget(f"{target} is not a Node")
    return node


def _get_only_node(members: dict[str, object], target: str) -> Node:
    nodes = list({id(member): member for member in members.values() if isinstance(member, Node)}.values())
    if not nodes and default_node.functions:
        return default_node
    if len(nodes) != 1:
        raise UnusableTarget(f"{target} has {len(nodes) or 'no'} nodes; name one as {target}:name")
    return nodes[0]
