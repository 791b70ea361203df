"""A hundred policies in CEL, cheap and heavy, divided among validators, and undivided over the same ones."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from pathlib import Path

from deployments import configured, deployed_services
from measures import Effort, Section, interleaved
from paths import connections

from policies import CHEAP, TEN, policy
from processes import installed

FLAG = "--validator-fanout"
POLICIES, REPLICAS = 100, 4
HEAVY = f"{TEN}.all(a, {TEN}.all(b, object.spec.containers.all(c, c.image != '' && a + b < 99)))"
"""A hundred looks at each container: so much work that a second hop is little beside it."""
SETS = {"cheap": CHEAP, "heavy": HEAVY}
"""Expressions of the policies; all of the cheap ones take about as long as a hop."""
OVER_ONE = "1 validator"
SHARES = {
    f"{REPLICAS} validators, fan-out {value}": (FLAG, value) for value in ("off", "auto", str(REPLICAS))
}
"""Flags of front doors that have the same validators, by what they are called in tables."""
UNDIVIDED, *DIVIDED = SHARES


def named(kind: str, target: str) -> str:
    """A target of one of the sets."""
    return f"{kind}, {target}"


class NotMeasurableError(Exception):
    """A section cannot be measured here, and why."""


def measure_fanouts(effort: Effort, folder: Path) -> Section:
    """``/validate`` by front doors that divide the work differently, and by one that has one validator alone.

    Raises:
        NotMeasurableError: the front door has no flag for it.
    """
    if not has_flag():
        raise NotMeasurableError(f"`pratique serve frontdoor` has no {FLAG}")
    section: Section = {}
    for kind, expression in SETS.items():
        section |= _measured(kind, configured_policies(folder, kind, expression), effort)
    return section


def configured_policies(folder: Path, kind: str, expression: str) -> tuple[str, ...]:
    """Chain flags for a hundred policies of this expression."""
    documents = [part for place in range(POLICIES) for part in policy(f"p{place}", expression, "pods")]
    return configured(folder, f"fan-outs-{kind}", documents, "ValidatingAdmissionPolicy")


def _measured(kind: str, chain: tuple[str, ...], effort: Effort) -> Section:
    with contextlib.ExitStack() as running:
        services = running.enter_context(deployed_services(chain, REPLICAS))
        alone = running.enter_context(services.front_door(validators=1, flags=(FLAG, "off")))
        targets = {named(kind, OVER_ONE): alone.target("/validate")}
        for name, flags in SHARES.items():
            divided = running.enter_context(services.front_door(flags=flags))
            targets[named(kind, name)] = divided.target("/validate")
        return interleaved(targets, connections(1, 16), effort)


def has_flag() -> bool:
    """Whether the front door's help tells of it."""
    command = [sys.executable, "-m", "pratique_cli", "serve", "frontdoor", "--help"]
    return (
        FLAG in subprocess.run(command, env=installed(), stdout=subprocess.PIPE, text=True, check=True).stdout
    )
