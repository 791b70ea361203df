"""Queries in PromQL: one question to Prometheus that has both answers, the percentile and how many samples it is of.

What is asked of cAdvisor's metrics, as every kubelet shows them at ``/metrics/cadvisor``:
``container_cpu_usage_seconds_total`` and ``container_memory_working_set_bytes``, with their labels ``image`` and
``namespace``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import re2  # type: ignore[import-untyped] # google-re2 comes without types

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pratique.usage_histories.usages import UsageQuery

STEP_SECONDS = 300
"""How far samples are apart. Two points of a counter make a rate, so that scrapes may be up to two minutes apart; a
month of one container is 8,640 samples, and Prometheus loads 50,000,000 by default: those of 5,700 containers.
"""

_MEASURES: Mapping[str, str] = {
    "cpu": f"1000 * rate(container_cpu_usage_seconds_total{{}}[{STEP_SECONDS}s])",
    "memory": "container_memory_working_set_bytes{}",
}
"""Millicores and bytes, of the series that the braces select."""

ANSWER_LABEL = "answer"
USAGE, SAMPLES = "usage", "samples"


def promql(query: UsageQuery) -> str:
    """Write the query: an instant vector of two elements, told apart by the label ``answer``.

    Prometheus cannot rank the samples of several series together. So each container has its percentile, and the
    percentile of those is the answer: of a hundred containers, so many used no more for so much of their time.
    """
    samples = f"({_measure(query)})[{query.end - query.start}s:{STEP_SECONDS}s]"
    quantile = f"{query.percentile / 100:g}"
    return " or ".join(
        (
            _labelled(USAGE, f"quantile({quantile}, quantile_over_time({quantile}, {samples}))"),
            _labelled(SAMPLES, f"sum(count_over_time({samples}))"),
        )
    )


def _measure(query: UsageQuery) -> str:
    return _MEASURES[query.resource].replace("{}", f"{{{','.join(_matchers(query))}}}")


def _matchers(query: UsageQuery) -> list[str]:
    if query.any_tag:
        # Prometheus anchors patterns at both ends.
        image = f"image=~{quoted(f'{re2.escape(query.image)}([:@].*)?')}"
    else:
        image = f"image={quoted(query.image)}"
    return [image, *([f"namespace={quoted(query.namespace)}"] if query.namespace else [])]


def _labelled(name: str, expression: str) -> str:
    return f'label_replace({expression}, "{ANSWER_LABEL}", "{name}", "", "")'


def quoted(text: str) -> str:
    """Write a text as a string of PromQL, which has Go's escapes."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
