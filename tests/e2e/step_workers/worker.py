"""The same worker with the SDK. ``WORKER_OVER`` says how its jobs travel: ``rest`` or ``grpc``."""

import os
from collections import Counter

from statewright.sdk import Job, Node, NonRetryable

node = Node(jobs_over="grpc" if os.environ["WORKER_OVER"] == "grpc" else "rest")
attempts: Counter[str] = Counter()


@node.job("chain-a")
def first(variables: dict) -> dict:
    return {"trail": [*variables["trail"], "a"]}


@node.job("chain-b")
async def second(variables: dict, job: Job) -> dict:
    attempts[job.id] += 1
    if attempts[job.id] == 1:
        raise ValueError("the first try always fails")
    return {"trail": [*variables["trail"], "b"], "attempts": attempts[job.id]}


@node.job("chain-c")
def third(job: Job) -> dict:
    if job.variables.get("doomed"):
        raise NonRetryable("there is no hope")
    return {"trail": [*job.variables["trail"], "c"]}
