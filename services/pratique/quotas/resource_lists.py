"""Resource lists as quotas compute with them: amounts by name, added up, cut out and printed.

Source: ``k8s.io/apiserver/pkg/quota/v1/resources.go``, and ``prettyPrint`` of
``k8s.io/apiserver/pkg/admission/plugin/resourcequota/controller.go``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.quantities import Quantity

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from pratique.demands import ResourceList

ZERO = Quantity(0)
ONE = Quantity(1)


def add(first: ResourceList, second: ResourceList) -> dict[str, Quantity]:
    """The sum of two lists; what only one of them names counts as it is."""
    total = dict(first)
    for name, amount in second.items():
        total[name] = total[name] + amount if name in total else amount
    return total


def increase(after: ResourceList, before: ResourceList) -> dict[str, Quantity]:
    """By how much each amount has grown; zero where it has shrunk, because a quota is never credited."""
    grown = {}
    for name in (*after, *before):
        difference = after.get(name, ZERO) - before.get(name, ZERO)
        grown[name] = difference if difference.sign > 0 else ZERO
    return grown


def mask(amounts: ResourceList, names: Collection[str]) -> dict[str, Quantity]:
    """Only the amounts of those names."""
    return {name: amount for name, amount in amounts.items() if name in names}


def without_zeros(amounts: ResourceList) -> dict[str, Quantity]:
    """Only the amounts that are not zero."""
    return {name: amount for name, amount in amounts.items() if amount.sign}


def exceeding(amounts: ResourceList, bounds: ResourceList) -> set[str]:
    """The names whose amount is above its bound; what has no bound is not."""
    return {name for name in amounts.keys() & bounds.keys() if amounts[name].compare(bounds[name]) > 0}


def printed(amounts: ResourceList) -> str:
    """The amounts in one line, sorted by name: ``cpu=3,memory=3Gi``."""
    return ",".join(f"{name}={amounts[name]}" for name in sorted(amounts))


def printed_names(names: Iterable[str]) -> str:
    """The names in one line, sorted."""
    return ",".join(sorted(names))
