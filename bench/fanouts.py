"""A hundred policies in CEL, divided among validators: what dividing them wins over the same replicas undivided."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from pathlib import Path

from deployments import configured, deployed_services
from measures import Effort, Section, interleaved
from paths import cheap_policies, connections

from processes import installed

FLAG = "--validator-fanout"
POLICIES, REPLICAS = 100, 4
OVER_ONE = "1 validator"
SHARES = {
    f"{REPLICAS} validators, fan-out {value}": (FLAG, value) for value in ("off", "auto", str(REPLICAS))
}
"""Flags of front doors that have the same validators, by what they are called in tables."""
UNDIVIDED, *DIVIDED = SHARES


class NotMeasurableError(Exception):
    """A section cannot be measured here, and why."""


def measure_fanouts(effort: Effort, folder: Path) -> Section:
    """``/validate`` by front doors that divide the work differently, and by one that has one validator alone.

    Raises:
        NotMeasurableError: the front door has no flag for it.
    """
    if not has_flag():
        raise NotMeasurableError(f"`pratique serve frontdoor` has no {FLAG}")
    documents = cheap_policies(POLICIES)
    chain = configured(folder, "fan-outs", documents, "ValidatingAdmissionPolicy")
    with contextlib.ExitStack() as running:
        services = running.enter_context(deployed_services(chain, REPLICAS))
        alone = running.enter_context(services.front_door(validators=1, flags=(FLAG, "off")))
        targets = {OVER_ONE: alone.target("/validate")}
        for name, flags in SHARES.items():
            targets[name] = running.enter_context(services.front_door(flags=flags)).target("/validate")
        return interleaved(targets, connections(1, 16), effort)


def has_flag() -> bool:
    """Whether the front door's help tells of it."""
    command = [sys.executable, "-m", "pratique_cli", "serve", "frontdoor", "--help"]
    return (
        FLAG in subprocess.run(command, env=installed(), stdout=subprocess.PIPE, text=True, check=True).stdout
    )
