"""The floor under callouts, and callouts alone, as load processes; their other side is one more process.

python -m benchmarks.echo_load echo|callouts
"""

import sys
import time

from benchmarks.echo import measure_dispatch, measure_echo
from benchmarks.jobs import Job, Outcome, serve

MEASURES = {"echo": measure_echo, "callouts": measure_dispatch}


async def work(job: Job) -> Outcome:
    """As many messages under way on one stream as the job has clients. No latencies: they are not taken there."""
    cpu = time.process_time()
    measured = await MEASURES[sys.argv[1]](in_flight=job.clients, seconds=job.seconds)
    return Outcome(
        rate=measured.rate, succeeded=int(measured.rate * job.seconds), failed=0, cpu=time.process_time() - cpu
    )


if __name__ == "__main__":
    serve(work)
