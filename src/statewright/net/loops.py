"""Loops over items: beginning their elements, taking in their results, and finishing.

An element is a token of its own beside that of the loop, at the same node, while a task or another instance does it or
since it failed; or else a pass over the body of the loop, a scope of its own for the tokens in it.
"""

from msgspec.structs import replace

from statewright.jsonval.values import JsonObject, JsonValue
from statewright.net.effects import RecordEntry, RecordPatch, StartChild
from statewright.net.executions import Closing, close, enqueue_task
from statewright.net.firing import apply_changes, build_visit, complete, fail
from statewright.net.language import Problem, Visit
from statewright.net.marking import ElementResult, ExecutionId, Move, Scope, ScopeId, Token
from statewright.net.nodes import Body, Many, SubNet, Task
from statewright.net.run import KernelRun


def advance_loop(run: KernelRun, loop_id: ExecutionId) -> None:
    """Begin the next elements of a loop as far as its limit goes, or finish it when all have a result."""
    token = run.tokens.get(loop_id)
    if token is None or loop_id not in run.loops or not isinstance(many := run.get_node(token).activity, Many):
        return
    visit = build_visit(run, token)
    items = visit if isinstance(visit, Problem) else run.language.list_items(run.data, visit)
    if isinstance(visit, Problem) or isinstance(items, Problem):
        run.drop_loop(loop_id)
        fail(run, token, items.reason if isinstance(items, Problem) else "")
        return
    has_begun_pass = False
    while run.phase == "RUNNING" and not has_begun_pass and (element := _take_next(run, loop_id, many)) is not None:
        loop = run.loops[loop_id]
        again = tuple(other for other in loop.again if other != element)
        run.loops[loop_id] = replace(loop, again=again, next=max(loop.next, element + 1))
        item = items[element]
        visit_of_item = replace(visit, input=item, payloads=(item,), element=element)
        has_begun_pass = _begin_element(run, token, many, visit_of_item)
    if has_begun_pass:
        run.due_loops[loop_id] = None  # to go on once the tokens of this pass rest, so that elements begin in order
        return
    if run.phase == "RUNNING" and _is_over(run, loop_id, many):
        _finish_loop(run, token, visit, many)


def _take_next(run: KernelRun, loop_id: ExecutionId, many: Many) -> int | None:
    """The element to begin next; ``None``: no other one may run now."""
    loop = run.loops[loop_id]
    if loop.limit is not None and _count_running(run, loop_id) >= loop.limit:
        return None
    if loop.failed and many.on_failure == "STOP":
        return None
    if loop.again:
        return loop.again[0]
    return loop.next if loop.next < loop.size else None


def _is_over(run: KernelRun, loop_id: ExecutionId, many: Many) -> bool:
    loop = run.loops[loop_id]
    if loop.failed and many.on_failure == "STOP":
        return _count_running(run, loop_id) == 0
    return len(run.list_results(loop_id)) == loop.size


def _count_running(run: KernelRun, loop_id: ExecutionId) -> int:
    loop = run.loops[loop_id]
    return loop.next - len(loop.again) - len(run.list_results(loop_id))


def _begin_element(run: KernelRun, owner: Token, many: Many, visit: Visit) -> bool:
    """Begin an element; True when its tokens are on their way into the body of the loop."""
    guard = visit.node.skip_unless
    verdict = True if guard is None else run.language.evaluate_guard(guard, run.data, visit)
    if isinstance(verdict, Problem):
        fail(run, _enter_element(run, owner, visit), verdict.reason)
    elif not verdict:
        run.add_result(owner.id, ElementResult(_element_of(visit), visit.payloads, "SKIPPED"))
    elif isinstance(many.body, Task):
        token = _enter_element(run, owner, visit)
        run.put_token(enqueue_task(run, token, many.body, visit.input))
    elif isinstance(many.body, SubNet):
        _begin_child(run, owner, many.body, visit)
    else:
        _begin_pass(run, owner, many.body, visit)
        return True
    return False


def _begin_child(run: KernelRun, owner: Token, body: SubNet, visit: Visit) -> None:
    token = _enter_element(run, owner, visit)
    given = run.language.build_child_input(run.data, visit)
    if isinstance(given, Problem):
        fail(run, token, given.reason, given.error)
    else:
        run.emit(StartChild(net=body.net, input=given, awaited_by=token.id))


def _element_of(visit: Visit) -> int:
    assert visit.element is not None  # noqa: S101 - made for an element
    return visit.element


def _enter_element(run: KernelRun, owner: Token, visit: Visit) -> Token:
    token = Token(
        id=ExecutionId(run.next_id()),
        node=owner.node,
        attempt=owner.attempt,
        payloads=visit.payloads,
        scope=owner.scope,
        owner=owner.id,
        element=visit.element,
        begun_at=run.begun_at,
    )
    run.put_token(token)
    run.emit(
        RecordEntry(
            execution=token.id,
            node=token.node,
            attempt=token.attempt,
            input=visit.input,
            element=visit.element,
            token=owner.id,
        )
    )
    return token


def _begin_pass(run: KernelRun, owner: Token, body: Body, visit: Visit) -> None:
    scope = Scope(id=ScopeId(run.next_id()), owner=owner.id, element=_element_of(visit))
    run.scopes[scope.id] = scope
    run.due_scopes[scope.id] = None
    run.send(Move(target=entry, source=owner.node, payloads=visit.payloads, scope=scope.id) for entry in body.entries)


def complete_element(run: KernelRun, token: Token, output: JsonValue, *, is_closed: bool = False) -> None:
    """What does an element is done; ``is_closed``: it was recorded before, while the instance was not running."""
    owner = token.owner
    visit = build_visit(run, token, output)
    if owner is None or isinstance(visit, Problem):
        return
    problem = release_changes(run, token)
    completed = problem or run.language.complete(run.data, visit)
    if isinstance(completed, Problem):
        fail(run, token, completed.reason, completed.error)
        return
    run.data = completed.data
    if not is_closed:
        token = close(run, token, Closing(status="COMPLETED", work="COMPLETED", output=completed.output))
    run.remove_token(token)
    run.add_result(owner, ElementResult(_element_of(visit), completed.payloads))


def conclude_pass(run: KernelRun, scope_id: ScopeId) -> None:
    """Take in the result of a pass over the body of a loop in which nothing moves or works any more."""
    scope = run.scopes.get(scope_id)
    if scope is None:
        return
    if not run.index.is_quiet(scope_id):
        return
    tokens = run.index.list_scope(scope_id)
    waiting = dict.fromkeys(token.node for token in tokens if token.stage == "WAITING")
    concluded = run.language.conclude(run.data, scope.yielded, tuple(waiting))
    if concluded is None:
        return
    for token in tokens:
        run.remove_token(token)
    del run.scopes[scope_id]
    if isinstance(concluded, Problem):
        _fail_element(run, scope, concluded.reason)
        return
    payloads = (concluded.result,) if scope.yielded is None else scope.yielded
    run.add_result(scope.owner, ElementResult(scope.element, payloads))


def _fail_element(run: KernelRun, scope: Scope, reason: str) -> None:
    owner = run.tokens[scope.owner]
    visit = run.build_visit(run.get_node(owner), (), None)
    fail(run, _enter_element(run, owner, replace(visit, element=scope.element)), reason)


def repeat_element(run: KernelRun, token: Token) -> None:
    """Have a failed or interrupted element begin again when its loop goes on."""
    if token.owner is None or token.element is None:
        return
    run.remove_token(token)
    loop = run.loops[token.owner]
    run.loops[token.owner] = replace(loop, again=(*loop.again, token.element))
    run.due_loops[token.owner] = None


def _finish_loop(run: KernelRun, token: Token, visit: Visit, many: Many) -> None:
    results = sorted(run.list_results(token.id), key=lambda result: result.element)
    output = run.language.collect(run.data, visit, results)
    size, failed = run.loops[token.id].size, run.loops[token.id].failed
    run.drop_loop(token.id)
    if isinstance(output, Problem):
        fail(run, token, output.reason, output.error)
    elif failed and many.on_failure == "STOP":
        fail(run, token, run.language.explain_loop(failed, size, output), output)
    else:
        complete(run, token, replace(visit, output=output))


def change_data(run: KernelRun, token: Token, changes: JsonObject) -> None:
    """A running task changes the shared data: at once, or when its element ends where several run at once."""
    if token.owner is None or run.loops[token.owner].limit == 1:
        problem = apply_changes(run, token, changes)
        if problem is not None:
            fail(run, token, problem.reason, problem.error)
        return
    run.put_token(replace(token, changes=(*token.changes, changes)))
    run.emit(RecordPatch(changes, token.id, is_held=True))


def release_changes(run: KernelRun, token: Token) -> Problem | None:
    """Make the changes that an element held back; a problem, and none of them, where another wrote otherwise."""
    if not token.changes or token.owner is None:
        return None
    loop = run.loops[token.owner]
    for changes in token.changes:
        for key, value in changes.items():
            if key in loop.written and loop.written[key] != value:
                return Problem(f"CTX_CONFLICT: {key} was written by another element with a different value")
    for changes in token.changes:
        problem = apply_changes(run, token, changes)
        if problem is not None:
            return problem
        loop = replace(loop, written={**loop.written, **changes})
        run.loops[token.owner] = loop
    return None


def fail_element(run: KernelRun, token: Token, reason: str, error: JsonValue = None) -> None:
    """The task of a node or of an element failed; what it changed before that stays, as far as it can be made."""
    release_changes(run, token)
    fail(run, token, reason, error)
