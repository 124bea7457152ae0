"""A program with an event loop whose specialist is on another host: `python -m tests.network.asyncio_use URL`.

It says what it found as JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from ether import Closed, Runtime, Status

STEPS = 4


async def _climb(bus: Runtime) -> dict[str, Any]:
    """The specialist takes a step when it is told to, so each progress has to come here before the next is made."""
    progress, last = [], None
    async for response in bus.delegate("stairs.climb", {"count": STEPS}, timeout=30.0).stream():
        last = response
        if response.status is Status.PROGRESS:
            progress.append(response.progress)
            (await bus.delegate("stairs.step")).unwrap()
    assert last is not None
    return {"progress": progress, "status": last.status, "data": last.data}


async def _give_up(bus: Runtime) -> dict[str, Any]:
    """Wait for what never ends, no longer than 0.2 s from when it is known to run."""
    endless = bus.delegate("stairs.wait", timeout=60.0)
    async for response in endless.stream():
        if response.status is Status.PROGRESS:
            break
    was_running = not endless.done
    gave_up = False
    try:
        await asyncio.wait_for(endless, 0.2)
    except TimeoutError:
        gave_up = True
    there = await bus.delegate("stairs.cancelled", timeout=15.0)
    return {
        "was_running": was_running, "gave_up": gave_up, "status": (await endless).status, "there": there.status,
    }  # fmt: skip


async def main() -> None:
    async with Runtime.connect(sys.argv[1], name="program") as bus:
        many = await asyncio.gather(*(bus.delegate("net.once", {"key": f"{n}", "seconds": 0.0}) for n in range(20)))
        found: dict[str, Any] = {"many": [response.unwrap().data for response in many], "climb": await _climb(bus)}
        found["given_up"] = await _give_up(bus)
    try:
        bus.delegate("stairs.step")
    except Closed:
        found["closed"] = True
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
