"""Quality of service: how well a Pod is served when a node runs short.

Source: ``pkg/apis/core/helper/qos/qos.go``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.json_values import member
from pratique.quantities import Quantity, QuantityError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pratique.json_values import JSON

BEST_EFFORT = "BestEffort"

_RESOURCES = ("cpu", "memory")
"""Those that the class depends on."""


def is_best_effort(pod: JSON) -> bool:
    """Tell whether a Pod is promised nothing: none of its containers asks for cpu or memory, or limits them.

    What its status says counts first, and what the Pod asks for as a whole before what its containers do.
    Ephemeral containers never count.
    """
    known = member(pod, "status", "qosClass")
    if isinstance(known, str) and known:
        return known == BEST_EFFORT
    return not any(_is_positive(amount) for amount in _amounts(pod))


def _amounts(pod: JSON) -> Iterator[JSON]:
    for resources in _requirements(pod):
        for kind in ("requests", "limits"):
            for name in _RESOURCES:
                yield member(resources, kind, name)


def _requirements(pod: JSON) -> Iterator[JSON]:
    of_pod = member(pod, "spec", "resources")
    if of_pod is not None:
        yield of_pod
        return
    for field in ("containers", "initContainers"):
        items = member(pod, "spec", field)
        for container in items if isinstance(items, list) else ():
            yield member(container, "resources")


def _is_positive(amount: JSON) -> bool:
    # A number is a quantity too; nothing else can be one.
    if type(amount) not in {str, int, float}:
        return False
    try:
        return Quantity.parse(str(amount)).sign > 0
    except QuantityError:
        return False
