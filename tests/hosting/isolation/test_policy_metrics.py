"""Metrics of a policy's own, which runs in a process of its own."""

from __future__ import annotations

import sys
from pathlib import Path

from pratique.configuration.settings import ChainSettings
from support.controller_packages import lay_out
from support.isolated_hosts import Host, isolating
from support.waiting import within

PACKAGE = """
import os

from prometheus_client import Counter

from pratique import allow, deny, validator

SEEN = Counter("acme_seen", "Reviews.", ["team"], registry=None)


@validator("CountThem", collectors=[SEEN])
def count_them(review):
    SEEN.labels("pay").inc()
    if review.object["metadata"]["name"] == "end":
        os._exit(1)
    return allow()
"""


def seen(host: Host) -> float:
    """How many reviews the policy has counted, as the service shows it."""
    [hosted] = host.host.hosted
    families = [family for collector in hosted.handlers.collectors for family in collector.collect()]
    samples = [sample for family in families for sample in family.samples]
    return next((sample.value for sample in samples if sample.name == "acme_seen_total"), 0)


def test_a_service_shows_what_a_policy_counts_in_its_process(tmp_path: Path) -> None:
    place = lay_out(tmp_path, "acme_counting", PACKAGE, one="count_them")
    sys.path.insert(0, str(place))
    try:
        with isolating(ChainSettings(admission_control=("CountThem",))) as host:
            for _ in range(3):
                host.ask("CountThem", review="web")
            assert within(120, lambda: seen(host) == 3)
            host.ask("CountThem", review="end")
            assert within(60, lambda: seen(host) == 0)
            assert within(60, lambda: bool(host.ask("CountThem", review="web")) and seen(host) > 0)
    finally:
        sys.path.remove(str(place))
