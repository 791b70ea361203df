"""What goals hold: one figure out of several of a section. None where the section has not all of them."""

from __future__ import annotations

from collections.abc import Iterable

from paths import GRPC_ECHO, HTTP_ECHO, PATHS
from results import Results
from soaks import AFTER, AT_REST
from tails import HALF

_HOPS = {"/mutate": 1, "/validate": 1, "/admit": 2}
"""Calls to services that a path makes: its floor is one echo over HTTP and one over the hop for each of them."""
_MICROSECONDS = 1e6
_MILLISECONDS = 1e3
ONE, SIXTEEN = "1 connection", "16 connections"
"""Shapes of loads that goals are about."""


def _by(above: float | None, below: float | None) -> float | None:
    return None if above is None or not below else above / below


def _worst(figures: Iterable[float | None]) -> float | None:
    return max((figure for figure in figures if figure is not None), default=None)


def to_floor(path: str, section: str, shape: str, hop: str, results: Results) -> float | None:
    """The median of a path by that of the echoes it is made of."""
    ours, http, inside = (results.figure(section, who, shape, "p50") for who in (path, HTTP_ECHO, hop))
    return None if http is None or inside is None else _by(ours, http + _HOPS[path] * inside)


def worst_to_floor(section: str, shape: str, results: Results) -> float | None:
    return _worst(to_floor(path, section, shape, GRPC_ECHO, results) for path in PATHS)


def cpu_microseconds(section: str, path: str, shape: str, results: Results) -> float | None:
    cpu = results.figure(section, path, shape, "cpu")
    return None if cpu is None else cpu * _MICROSECONDS


def to_peer(ours: str, peer: str, phase: str, results: Results) -> float | None:
    rates = (results.figure("peers", f"{who}, {phase}", SIXTEEN, "rate") for who in (ours, peer))
    return _by(*rates)


def slowest_view(results: Results) -> float | None:
    """Milliseconds of the console's slowest view, whether asked for the first time or later."""
    times = [shape["p50"] for view in results.sections.get("console", {}).values() for shape in view.values()]
    slowest = _worst(times)
    return None if slowest is None else slowest * _MILLISECONDS


def quotient(section: str, shape: str, name: str, targets: tuple[str, str], results: Results) -> float | None:
    """A figure of the first target by that of the second."""
    return _by(*(results.figure(section, target, shape, name) for target in targets))


def worst_tail(results: Results) -> float | None:
    """Of the paths whose generator had a core of its own."""
    alone = [path for path in PATHS if results.figure("tails", path, HALF, "generator_cores")]
    return _worst(
        _by(results.figure("tails", path, HALF, "p99"), results.figure("tails", path, HALF, "p50"))
        for path in alone
    )


def cores_of_tails(results: Results) -> str:
    if not results.figure("tails", PATHS[0], HALF, "generator_cores"):
        return "the generator has no core of its own"
    number = results.figure("tails", PATHS[0], HALF, "suite_cores")
    return "the suite has one core" if number == 1 else ""


def policy_microseconds(results: Results) -> float | None:
    """What each further policy adds to the CPU time of a review, in µs: of up to 100, and of up to 1,000."""
    first = cpu_microseconds("policies", "1 policy", ONE, results)
    more = {
        number: cpu_microseconds("policies", f"{number:,} policies", ONE, results) for number in (100, 1000)
    }
    if first is None or None in more.values():
        return None
    return _worst((cpu - first) / (number - 1) for number, cpu in more.items() if cpu is not None)


def most_memory(results: Results) -> float | None:
    services = results.sections.get("memory", {}).values()
    return _worst(service[when]["mebibytes"] for service in services for when in (AT_REST, AFTER))


def memory_growth(results: Results) -> float | None:
    """Of the service that grew most."""
    services = results.sections.get("memory", {}).values()
    return _worst(service[AFTER]["mebibytes"] / service[AT_REST]["mebibytes"] for service in services)
