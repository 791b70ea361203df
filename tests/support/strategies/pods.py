"""Strategies: Pods as a user may write them, for properties that hold for all of them."""

from __future__ import annotations

from hypothesis import strategies as st

from pratique.apimachinery.json_values import JSONObject

NAMES = st.from_regex(r"[a-z]([-a-z0-9]{0,8}[a-z0-9])?", fullmatch=True)
IMAGES = st.sampled_from(["nginx", "nginx:1.27", "registry.example.com/team/app@sha256:0", ""])
PULL_POLICIES = st.sampled_from(["Always", "IfNotPresent", "Never", "", None])
TAINTS = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable", "dedicated", ""]
QUANTITIES = st.sampled_from(["1", "250m", "64Mi", "1Gi", 2])


def optional(
    required: dict[str, st.SearchStrategy[object]], **members: st.SearchStrategy[object]
) -> st.SearchStrategy[JSONObject]:
    """Objects with all of the required members and any of the others."""
    return st.fixed_dictionaries(required, optional=members)


def resources() -> st.SearchStrategy[JSONObject]:
    """What a container asks for."""
    amounts = st.dictionaries(st.sampled_from(["cpu", "memory", "example.com/gpu"]), QUANTITIES)
    return optional({}, requests=amounts, limits=amounts)


def containers() -> st.SearchStrategy[JSONObject]:
    """Containers of any field."""
    return optional({"name": NAMES, "image": IMAGES}, imagePullPolicy=PULL_POLICIES, resources=resources())


def tolerations() -> st.SearchStrategy[JSONObject]:
    """Tolerations of the taints that controllers care about, and others."""
    return optional(
        {},
        key=st.sampled_from(TAINTS),
        operator=st.sampled_from(["Exists", "Equal"]),
        effect=st.sampled_from(["NoExecute", "NoSchedule", ""]),
        value=NAMES,
        tolerationSeconds=st.integers(0, 600),
    )


def volumes() -> st.SearchStrategy[JSONObject]:
    """Volumes, image volumes among them."""
    return optional(
        {"name": NAMES},
        emptyDir=st.just({}),
        image=optional({"reference": IMAGES}, pullPolicy=PULL_POLICIES),
    )


def anti_affinity_terms() -> st.SearchStrategy[JSONObject]:
    """Required anti-affinity terms."""
    return optional({}, topologyKey=st.sampled_from(["kubernetes.io/hostname", "zone", ""]))


def affinities() -> st.SearchStrategy[JSONObject]:
    """Affinities that keep Pods apart."""
    terms = st.lists(anti_affinity_terms(), max_size=3)
    keep_apart = optional({}, requiredDuringSchedulingIgnoredDuringExecution=terms)
    return optional({}, podAntiAffinity=keep_apart)


def specs() -> st.SearchStrategy[JSONObject]:
    """What a Pod runs."""
    some = st.lists(containers(), max_size=3)
    return optional(
        {"containers": st.lists(containers(), min_size=1, max_size=4)},
        initContainers=some,
        ephemeralContainers=some,
        tolerations=st.none() | st.lists(tolerations(), max_size=4),
        volumes=st.lists(volumes(), max_size=3),
        affinity=affinities(),
    )


def pods() -> st.SearchStrategy[JSONObject]:
    """Pods, with and without what is optional."""
    texts = st.dictionaries(NAMES, NAMES, max_size=3)
    metadata = optional({"name": NAMES}, namespace=NAMES, labels=texts, annotations=texts)
    return optional(
        {"apiVersion": st.just("v1"), "kind": st.just("Pod"), "metadata": metadata, "spec": specs()}
    )
