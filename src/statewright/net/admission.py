"""Tokens take turns: the oldest that may begin does, as long as the instance has capacity
(docs/reference/kernel.md#turns-and-admission).

A token that is not admitted is asked about again when what the rule of its node looks at has changed. All are compared
with the data of that moment, one after the other, so that no two pass where only one may.
"""

from msgspec.structs import replace

from statewright.jsonval.values import JsonValue
from statewright.net.effects import Trace
from statewright.net.executions import arm_time_limit, disarm, discard, end_badly, place_token
from statewright.net.firing import fire
from statewright.net.language import Verdict
from statewright.net.marking import Branch, Move, Token
from statewright.net.nodes import Admission, Node
from statewright.net.run import KernelRun


def release(run: KernelRun, node: Node, move: Move, branches: tuple[Branch, ...]) -> None:
    """Have a token fire its node: at once, or when it is its turn."""
    if run.net.capacity is None:
        fire(run, node, move, branches)
        return
    token = place_token(run, move, branches, "READY")
    if run.is_draining and not token.is_final:
        discard(run, token, "fail_fast")
        run.net.on_failure.end_branch(run, token)


def give_turn(run: KernelRun) -> bool:
    """Let the next token begin, or be refused; False when it is nobody's turn."""
    _reconsider_what_changed(run)
    if run.net.capacity is None or run.index.count_running() >= run.net.capacity:
        return False
    token = run.index.find_ready()
    if token is None:
        return False
    node = run.get_node(token)
    if node.admission is None or token.is_final or _is_admitted(run, token, node, node.admission):
        _begin(run, token, node)
    return True


def reconsider(run: KernelRun) -> None:
    """Ask once more about all tokens that are not admitted."""
    for node in run.index.list_pending_nodes():
        for token in run.index.list_pending(node):
            run.put_token(replace(token, stage="READY"))


def _reconsider_what_changed(run: KernelRun) -> None:
    before, run.data_before = run.data_before, None
    if before is None or not run.index.count("PENDING"):
        return
    changed = run.language.find_changes(before, run.data)
    for node in run.index.list_pending_nodes():
        admission = run.net.nodes[node].admission
        watches = None if admission is None else admission.watches
        if changed is None or watches is None or not changed.isdisjoint(watches):
            for token in run.index.list_pending(node):
                run.put_token(replace(token, stage="READY"))


def _is_admitted(run: KernelRun, token: Token, node: Node, admission: Admission) -> bool:
    verdict = run.language.admit(admission.rule, run.data, run.build_visit(node, token.payloads, None))
    _trace_verdict(run, token, verdict)
    if verdict.allows:
        return True
    if admission.on_deny == "DISCARD":
        discard(run, token, "denied")
        run.net.on_failure.end_branch(run, token)
    elif token.was_denied:
        run.put_token(replace(token, stage="PENDING"))
    else:
        run.put_token(replace(_limit_time(run, token, node), stage="PENDING", was_denied=True))
    return False


def _trace_verdict(run: KernelRun, token: Token, verdict: Verdict) -> None:
    """A token that stays refused is not told about again: each change of the data would tell of all of them."""
    if run.net.traces and (verdict.allows or not token.was_denied):
        details: dict[str, JsonValue] = {"allow": verdict.allows, **verdict.details}
        run.emit(Trace(kind="admission.evaluated", node=token.node, token=token.id, details=details))


def _limit_time(run: KernelRun, token: Token, node: Node) -> Token:
    return token if node.time_limit is None else arm_time_limit(run, token, node.time_limit)


def _begin(run: KernelRun, token: Token, node: Node) -> None:
    if run.phase == "WAITING":
        run.change_phase("RUNNING")
    disarm(run, token)
    run.remove_token(token)
    move = Move(
        target=node.id,
        source=token.source,
        payloads=token.payloads,
        scope=token.scope,
        token=token.id,
        is_final=token.is_final,
    )
    fire(run, node, move, token.branches)


def expire(run: KernelRun, token: Token, reason: str) -> None:
    """A token waited for admission longer than its node allows."""
    discard(run, token, reason)
    end_badly(run, token.node, reason)
