"""Taking down what goes on in a loop: because something interrupts it, or because a failure costs one element only."""

from msgspec.structs import replace

from statewright.net.branches import disarm
from statewright.net.executions import SKIPPED, Closing, close
from statewright.net.identifiers import ExecutionId, ScopeId
from statewright.net.marking import ElementResult, Token
from statewright.net.nodes import Many
from statewright.net.run import KernelRun


def withdraw_elements(run: KernelRun, owner: Token) -> None:
    """Take down all that a loop has going on, before its own token is closed."""
    if not run.drop_loop(owner.id):
        return
    for scope in [scope.id for scope in run.scopes.values() if scope.owner == owner.id]:
        _withdraw_pass(run, scope)
    for token in run.index.list_elements(owner.id):
        _withdraw_token(run, token)
    run.held_results = [held for held in run.held_results if held.token in run.tokens]


def absorb_failure(run: KernelRun, token: Token, closing: Closing, *, is_closed: bool = False) -> bool:
    """Let a failure cost one element of the innermost loop that survives it; False where there is none.

    A pass over the body of such a loop ends with the first failure in it. ``is_closed``: the execution of the token is
    recorded as ended already.
    """
    error = closing.reason if closing.output is None else closing.output
    if token.owner is not None and token.element is not None and _goes_on(run, token.owner):
        run.remove_token(token if is_closed else close(run, token, closing))
        run.add_result(token.owner, ElementResult(token.element, (error,), "FAILED"))
        return True
    scope_id = token.scope
    while scope_id is not None:
        scope = run.scopes[scope_id]
        if _goes_on(run, scope.owner):
            idle = token if is_closed else close(run, token, closing)
            run.put_token(replace(idle, stage="FAILED"))  # so that it is not closed with the rest of the pass
            _withdraw_pass(run, scope_id)
            run.held_results = [held for held in run.held_results if held.token in run.tokens]
            run.add_result(scope.owner, ElementResult(scope.element, (error,), "FAILED"))
            return True
        scope_id = run.tokens[scope.owner].scope
    return False


def _goes_on(run: KernelRun, owner: ExecutionId) -> bool:
    activity = run.get_node(run.tokens[owner]).activity
    return owner in run.loops and isinstance(activity, Many) and activity.on_failure != "FAIL"


def _withdraw_pass(run: KernelRun, scope: ScopeId) -> None:
    for token in run.index.list_scope(scope):
        _withdraw_token(run, token)
    run.agenda = [move for move in run.agenda if move.scope != scope]
    del run.scopes[scope]


def _withdraw_token(run: KernelRun, token: Token) -> None:
    withdraw_elements(run, token)
    if token.id not in run.tokens:
        return  # the token of an element goes with that of its loop
    if token.stage == "WORKING":
        close(run, token, SKIPPED)
    elif token.timers:
        disarm(run, token)
    run.remove_token(token)
