"""A workflow of Temporal with a step for each round, against its development server with a file."""

import time
import uuid
from datetime import timedelta

from temporalio import activity, workflow
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Worker


@activity.defn
async def step(at: int) -> str:
    return "x" * 100


@workflow.defn
class Work:
    @workflow.run
    async def run(self, steps: int) -> int:
        for at in range(steps):
            await workflow.execute_activity(step, at, start_to_close_timeout=timedelta(seconds=30))
        return steps


async def measure(steps, folder):
    """The seconds that so many steps take; the server comes from its makers when it is first asked for."""
    words = ["--db-filename", f"{folder}/temporal.db"]
    async with await WorkflowEnvironment.start_local(dev_server_extra_args=words) as environment:
        worker = Worker(environment.client, task_queue="bench", workflows=[Work], activities=[step])
        async with worker:
            await go(environment.client, 1)
            began = time.perf_counter()
            await go(environment.client, steps)
            return time.perf_counter() - began


async def go(client, steps):
    name = str(uuid.uuid4())
    await client.execute_workflow(Work.run, steps, id=name, task_queue="bench")
