"""Memory: at rest, and after many reviews."""

from __future__ import annotations

from deployments import Deployment, deployed
from measures import Effort, Section, Shape, load, tell

from processes import resident_mebibytes

AT_REST, AFTER = "at rest", "afterwards"
_FIRST = 200
"""Reviews before the service counts as being at rest: what is loaded when it is first needed is loaded then."""
_MANY, _LONG = 5_000, 100_000


def measure_soak(effort: Effort) -> Section:
    """Resident memory of each service in MiB, before and after reviews that take all hops."""
    reviews = _LONG if effort.long else _MANY
    with deployed() as ours:
        target, shape = ours.target("/admit"), Shape(16)
        load(target, shape, count=_FIRST)
        rest = _memory(ours)
        tell(f"{reviews} reviews")
        load(target, shape, count=reviews)
        after = _memory(ours)
    tell("")
    return {
        service: {
            AT_REST: {"mebibytes": rest[service]},
            AFTER: {"mebibytes": after[service], "reviews": reviews},
        }
        for service in rest
    }


def _memory(ours: Deployment) -> dict[str, float]:
    return {service: resident_mebibytes(pid) for service, pid in ours.pids.items()}
