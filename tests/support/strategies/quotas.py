"""Strategies: Pods and the ResourceQuotas that they are charged against."""

from __future__ import annotations

from hypothesis import strategies as st

from pratique.apimachinery.json_values import JSONObject
from support.resource_quotas import counted_pod, quota, requesting

NAMES = ("pods", "count/pods", "cpu", "requests.memory", "requests.example.com/gpu")
SCOPES = ("BestEffort", "NotBestEffort", "Terminating", "NotTerminating")


def pods() -> st.SearchStrategy[JSONObject]:
    """Pods that ask for processors and memory, so that no quota finds anything missing."""
    asked = st.builds(
        lambda cpu, memory, gpus: requesting(cpu=cpu, memory=memory, **{"example.com/gpu": gpus}),
        st.sampled_from(["0", "250m", "1", "2500m"]),
        st.sampled_from(["0", "64Mi", "1G"]),
        st.sampled_from(["0", "1", "3"]),
    )
    deadlines = st.sampled_from([None, 5])
    return st.builds(
        lambda containers, deadline: counted_pod(*containers, activeDeadlineSeconds=deadline),
        st.lists(asked, min_size=1, max_size=3),
        deadlines,
    )


def quotas() -> st.SearchStrategy[list[JSONObject]]:
    """A few ResourceQuotas of one namespace, with what is used of each."""
    hard = st.dictionaries(st.sampled_from(NAMES), st.sampled_from(["2", "5", "2G", "100G"]), max_size=4)
    scopes = st.lists(st.sampled_from(SCOPES), max_size=1)
    parts = st.lists(st.tuples(hard, scopes, st.sampled_from(["0", "1"])), min_size=1, max_size=3)
    return parts.map(
        lambda every: [
            quota(bounds, dict.fromkeys(bounds, used), name=f"quota-{index}", scopes=of)
            for index, (bounds, of, used) in enumerate(every)
        ]
    )
