"""Strategies: Pods that may do more than others, or say that they must not; and what they may do."""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import strategies as st

from pratique.apimachinery.json_values import JSONObject
from pratique.pods.pod_spec import CONTAINER_FIELDS
from support.strategies.pods import IMAGES, NAMES, PULL_POLICIES, affinities, optional, resources, tolerations

_MAYBE = st.none() | st.booleans()
_CAPABILITIES = st.lists(
    st.sampled_from(["ALL", "CHOWN", "NET_RAW", "NET_BIND_SERVICE", "SYS_ADMIN"]), max_size=3
)
_HOST = ("hostPID", "hostIPC", "hostNetwork")


def _profiles() -> st.SearchStrategy[JSONObject]:
    return st.fixed_dictionaries({"type": st.sampled_from(["RuntimeDefault", "Unconfined"])})


def _contexts() -> st.SearchStrategy[JSONObject]:
    return optional(
        {},
        privileged=_MAYBE,
        allowPrivilegeEscalation=_MAYBE,
        runAsNonRoot=_MAYBE,
        runAsUser=st.none() | st.integers(0, 2),
        readOnlyRootFilesystem=_MAYBE,
        procMount=st.sampled_from([None, "Default", "Unmasked"]),
        capabilities=st.none() | optional({}, add=_CAPABILITIES, drop=_CAPABILITIES),
        seccompProfile=_profiles(),
    )


def _containers() -> st.SearchStrategy[JSONObject]:
    return optional(
        {"name": NAMES, "image": IMAGES},
        securityContext=st.none() | _contexts(),
        resources=resources(),
        imagePullPolicy=PULL_POLICIES,
        ports=st.lists(optional({}, hostPort=st.integers(0, 2)), max_size=1),
    )


def _volumes() -> st.SearchStrategy[JSONObject]:
    source = st.sampled_from(["emptyDir", "hostPath", "secret", "configMap"])
    return source.flatmap(lambda kind: st.fixed_dictionaries({"name": NAMES, kind: st.just({})}))


def pods() -> st.SearchStrategy[JSONObject]:
    """Pods of any mixture."""
    some = st.lists(_containers(), max_size=2)
    spec = optional(
        {"containers": st.lists(_containers(), min_size=1, max_size=2)},
        initContainers=some,
        ephemeralContainers=some,
        volumes=st.lists(_volumes(), max_size=2),
        tolerations=st.lists(tolerations(), max_size=2),
        affinity=affinities(),
        securityContext=st.none() | optional({}, runAsUser=st.integers(0, 2), seccompProfile=_profiles()),
        automountServiceAccountToken=_MAYBE,
        shareProcessNamespace=_MAYBE,
        runtimeClassName=st.none() | st.just("sandbox"),
        **dict.fromkeys(_HOST, _MAYBE),
    )
    labels = st.dictionaries(NAMES, NAMES, max_size=2)
    metadata = optional({"name": NAMES}, labels=labels, annotations=labels)
    return st.fixed_dictionaries(
        {"apiVersion": st.just("v1"), "kind": st.just("Pod"), "metadata": metadata, "spec": spec}
    )


def privileges(pod: JSONObject) -> set[str]:
    """What a Pod may do that most may not."""
    spec = pod["spec"]
    found = {name for name in (*_HOST, "shareProcessNamespace") if spec.get(name)}
    found |= {f"hostPath {volume['name']}" for volume in spec.get("volumes") or () if "hostPath" in volume}
    for field in CONTAINER_FIELDS:
        for index, container in enumerate(spec.get(field) or ()):
            found |= {f"{field}[{index}] {privilege}" for privilege in _of_container(container)}
    return found


def _of_container(container: JSONObject) -> Iterator[str]:
    context = container.get("securityContext") or {}
    if context.get("privileged"):
        yield "is privileged"
    if context.get("allowPrivilegeEscalation"):
        yield "may gain privileges"
    if context.get("procMount") not in {None, "", "Default"}:
        yield "sees all of /proc"
    if context.get("runAsNonRoot") is False:
        yield "may be root"
    if (context.get("seccompProfile") or {}).get("type") == "Unconfined":
        yield "may call anything"
    capabilities = context.get("capabilities") or {}
    yield from (f"has {name}" for name in capabilities.get("add") or ())
    yield from (
        f"is on port {port['hostPort']} of the node"
        for port in container.get("ports") or ()
        if port.get("hostPort")
    )
