"""Merging: collectors that each know of one controller, shown as one, because a metric may be there only once."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from prometheus_client.metrics_core import Metric
    from prometheus_client.registry import Collector


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Merged:
    """Several collectors."""

    collectors: Sequence[Collector]

    def collect(self) -> Iterator[Metric]:
        """Yield each metric once, with what all of them have of it."""
        families: dict[str, Metric] = {}
        for collector in self.collectors:
            for family in collector.collect():
                families.setdefault(family.name, family)
                if families[family.name] is not family:
                    families[family.name].samples.extend(family.samples)
        yield from families.values()
