"""The log of an execution in the words of the simulator (``oracle``)."""

from collections.abc import Iterable, Iterator

from statewright.playbooks.events import LogEvent


def tell(log: Iterable[LogEvent]) -> list[str]:
    """The log of an execution in the words of the simulator."""
    return [line for event in log for line in _tell(event)]


def _tell(event: LogEvent) -> Iterator[str]:
    payload, step = event.payload, event.step
    match event.type:
        case "step.scheduled":
            yield f"run {step}#{payload['run']}"
        case "loop.iteration.scheduled":
            yield f"[{event.iteration}]"
        case "loop.iteration.done":
            yield f"[{event.iteration}] done"
        case "loop.iteration.failed":
            error = payload["error"]
            assert isinstance(error, dict)
            yield f"[{event.iteration}] failed {error['kind']}"
        case "ctx.patched":
            yield f"set {payload['changes']}"
        case "ctx.patch.held":
            yield f"held {payload['changes']}"
        case "step.done" | "step.failed" | "loop.done":
            yield f"{step} {event.type.removeprefix('step.')}"
        case "workflow.waiting":
            yield "WAITING"
        case "workflow.finished":
            summary = payload["summary"]
            assert isinstance(summary, dict)
            yield str(summary["status"])
        case "execution.cancelled":
            yield "cancelled"
        case _:
            yield from _tell_of_tokens(event)


def _tell_of_tokens(event: LogEvent) -> Iterator[str]:
    payload, step = event.payload, event.step
    match event.type:
        case "token.created" if payload["cause"] != "join":
            yield f"+{step}{'' if payload['final'] else payload['args']}"
        case "token.discarded":
            yield f"-{step} {payload['reason']}"
        case "policy.admit.evaluated" if not payload["allow"]:
            yield f"deny {step}"
        case "join.fired":
            yield f"join {step} {payload['sources']}"
        case "join.absorbed":
            yield f"absorb {step}"
        case "join.incomplete":
            yield f"incomplete {step}/{payload['action']}"
        case "next.evaluated":
            selected = payload["selected"]
            assert isinstance(selected, list)
            names = [str(arc["target"]) for arc in selected if isinstance(arc, dict)]
            yield f"next {step}→{','.join(names) or 'none'}"
        case "branch.failed":
            yield f"{step} fails its branch"
        case _:
            pass
