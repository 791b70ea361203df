"""Load generators, by HTTP, by gRPC and by bare frames.

Run as ``python bench/loads.py`` with a JSON object on standard input, a :class:`http_loads.Task`; prints one JSON
object. A process of its own, so that it shares no interpreter with what it measures; on a core of its own, where the
task names one. It says what it cost itself: CPU seconds of its own a request.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import sys
import time
from pathlib import Path

import grpc
import msgspec
import uvloop
from frames import frame_load
from http_loads import HttpLoad, Task


async def grpc_load(task: Task, body: bytes) -> list[float]:
    """Latencies in seconds of concurrent callers over one channel."""
    unlimited = (("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1))
    async with grpc.aio.insecure_channel(f"127.0.0.1:{task.port}", options=unlimited) as channel:
        call = channel.unary_unary("/bench.Echo/Echo", None, None)

        async def loop() -> list[float]:
            latencies, until = [], time.perf_counter() + task.seconds
            while (begun := time.perf_counter()) < until:
                await call(body, timeout=10)
                latencies.append(time.perf_counter() - begun)
            return latencies

        loops = await asyncio.gather(*(loop() for _ in range(task.connections)))
    return [latency for one in loops for latency in one]


async def _load(task: Task, body: bytes) -> list[float]:
    if task.kind == "grpc":
        return await grpc_load(task, body)
    if task.kind in {"frames", "unix"}:
        return await frame_load(task.path or task.port, body, task.connections, task.seconds)
    return await HttpLoad(task, body).run()


async def _measure(task: Task, body: bytes) -> dict[str, float]:
    begun, own = time.perf_counter(), _own_cpu_seconds()
    latencies = await _load(task, body)
    elapsed, own = time.perf_counter() - begun, _own_cpu_seconds() - own
    latencies.sort()
    return {
        "count": len(latencies),
        "p50": latencies[len(latencies) // 2],
        "p99": latencies[int(len(latencies) * 0.99)],
        "rate": len(latencies) / elapsed,
        "generator_cpu": own / len(latencies),
    }


def _own_cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    given = msgspec.json.decode(sys.stdin.read(), type=Task)
    if given.core is not None:
        os.sched_setaffinity(0, {given.core})
    print(json.dumps(uvloop.run(_measure(given, Path(given.body).read_bytes()))))
