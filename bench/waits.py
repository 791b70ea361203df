"""Validators that take their time: what sixteen side by side take, against the slowest of them alone."""

from __future__ import annotations

import contextlib
from pathlib import Path

from deployments import configured, deployed
from measures import HERE, Effort, Section, interleaved
from paths import connections
from sleepers import webhooks

from processes import process

SLOWEST = 50
"""Milliseconds: long against what a call costs, so that what is seen is whether they run side by side."""
TIMES = [*range(SLOWEST - 30, SLOWEST, 2), SLOWEST]
ALONE, TOGETHER = "the slowest alone", f"{len(TIMES)} side by side"


def measure_waits(effort: Effort, folder: Path) -> Section:
    """``/validate`` with webhooks that sleep for 20 to 50 ms: the slowest alone, and all sixteen."""
    with contextlib.ExitStack() as running:
        _, port = running.enter_context(process(str(HERE / "sleepers.py")))
        targets = {}
        for name, times in ((ALONE, [SLOWEST]), (TOGETHER, TIMES)):
            flags = configured(
                folder, f"waits-{len(times)}", [webhooks(times, port)], "ValidatingAdmissionWebhook"
            )
            targets[name] = running.enter_context(deployed(flags)).target("/validate")
        return interleaved(targets, connections(1), effort)
