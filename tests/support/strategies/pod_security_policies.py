"""Strategies: PodSecurityPolicies, and Pods that want what policies speak of."""

from __future__ import annotations

from hypothesis import strategies as st

from pratique.apimachinery.json_values import JSONObject
from support.strategies.pods import optional

_FLAGS = st.booleans()
_MAYBE = st.none() | _FLAGS
_IDS = st.integers(0, 3)
_CAPABILITIES = st.lists(st.sampled_from(["A", "B", "C"]), max_size=3)
_SYSCTLS = st.sampled_from(["net.*", "net.core", "kernel.shm_rmid_forced", "kernel.msg", "*"])
_PROFILES = st.sampled_from(["runtime/default", "docker/default", "localhost/a", "unconfined", ""])
_SECCOMP = "seccomp.security.alpha.kubernetes.io"
_APP_ARMOR = "apparmor.security.beta.kubernetes.io"
_LEVELS = st.sampled_from(["s0:c1,c2", "s0:c2,c1", "s0", ""])
_LABELS = optional({}, level=_LEVELS, role=st.sampled_from(["r", "s"]))


def _ranges() -> st.SearchStrategy[list[JSONObject]]:
    ranges = st.tuples(_IDS, _IDS).map(lambda ends: {"min": min(ends), "max": max(ends)})
    return st.lists(ranges, min_size=1, max_size=2)


def _ranged(*rules: str) -> st.SearchStrategy[JSONObject]:
    return st.fixed_dictionaries({"rule": st.sampled_from(rules), "ranges": _ranges()})


def _listed(*kinds: str) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(kinds), max_size=3)


def specs() -> st.SearchStrategy[JSONObject]:
    """Specs of policies that can judge Pods."""
    groups = _ranged("RunAsAny", "MayRunAs", "MustRunAs")
    rule = st.sampled_from(["RunAsAny", "MustRunAs"])
    path = optional({"pathPrefix": st.sampled_from(["/", "/a", "/a/b"])}, readOnly=_FLAGS)
    return optional(
        {
            "runAsUser": _ranged("RunAsAny", "MustRunAsNonRoot", "MustRunAs"),
            "seLinux": st.fixed_dictionaries({"rule": rule, "seLinuxOptions": _LABELS}),
            "fsGroup": groups,
            "supplementalGroups": groups,
        },
        runAsGroup=groups,
        privileged=_FLAGS,
        hostNetwork=_FLAGS,
        hostPorts=_ranges(),
        volumes=_listed("*", "hostPath", "secret", "emptyDir", "projected"),
        allowedHostPaths=st.lists(path, max_size=2),
        defaultAddCapabilities=_CAPABILITIES,
        requiredDropCapabilities=_CAPABILITIES,
        allowedCapabilities=_listed("*", "A", "B"),
        readOnlyRootFilesystem=_FLAGS,
        defaultAllowPrivilegeEscalation=_MAYBE,
        allowPrivilegeEscalation=_MAYBE,
        allowedUnsafeSysctls=st.lists(_SYSCTLS, max_size=2),
        forbiddenSysctls=st.lists(_SYSCTLS, max_size=1),
        runtimeClass=optional(
            {"allowedRuntimeClassNames": _listed("*", "a", "b")},
            defaultRuntimeClassName=st.sampled_from(["a", "b"]),
        ),
    )


def policies(name: str) -> st.SearchStrategy[JSONObject]:
    """Policies of that name."""
    annotations = optional(
        {},
        **{
            f"{_SECCOMP}/defaultProfileName": _PROFILES,
            f"{_SECCOMP}/allowedProfileNames": st.lists(_PROFILES | st.just("*"), max_size=3).map(",".join),
            f"{_APP_ARMOR}/defaultProfileName": _PROFILES,
            f"{_APP_ARMOR}/allowedProfileNames": st.lists(_PROFILES, max_size=2).map(",".join),
        },
    )
    return st.fixed_dictionaries(
        {
            "apiVersion": st.just("policy/v1beta1"),
            "kind": st.just("PodSecurityPolicy"),
            "metadata": st.fixed_dictionaries({"name": st.just(name), "annotations": annotations}),
            "spec": specs(),
        }
    )


def _seccomp_profiles() -> st.SearchStrategy[JSONObject]:
    return optional(
        {"type": st.sampled_from(["RuntimeDefault", "Unconfined", "Localhost"])},
        localhostProfile=st.just("a"),
    )


def _container_contexts() -> st.SearchStrategy[JSONObject | None]:
    return st.none() | optional(
        {},
        privileged=_MAYBE,
        runAsUser=_IDS,
        runAsGroup=_IDS,
        runAsNonRoot=_MAYBE,
        readOnlyRootFilesystem=_MAYBE,
        allowPrivilegeEscalation=_MAYBE,
        seLinuxOptions=st.none() | _LABELS,
        capabilities=st.none() | optional({}, add=_CAPABILITIES, drop=_CAPABILITIES),
        seccompProfile=_seccomp_profiles(),
    )


def _containers(name: str) -> st.SearchStrategy[JSONObject]:
    return optional(
        {"name": st.just(name)},
        securityContext=_container_contexts(),
        ports=st.lists(optional({}, hostPort=_IDS), max_size=1),
        volumeMounts=st.lists(optional({"name": st.just("v")}, readOnly=_FLAGS), max_size=1),
    )


def _pod_contexts() -> st.SearchStrategy[JSONObject | None]:
    return st.none() | optional(
        {},
        fsGroup=_IDS,
        supplementalGroups=st.none() | st.lists(_IDS, max_size=2),
        runAsUser=_IDS,
        runAsGroup=_IDS,
        runAsNonRoot=_MAYBE,
        seLinuxOptions=_LABELS,
        seccompProfile=_seccomp_profiles(),
        sysctls=st.lists(st.fixed_dictionaries({"name": _SYSCTLS, "value": st.just("1")}), max_size=1),
    )


def _volume(source: JSONObject) -> JSONObject:
    return {"name": "v", **source}


def confined_pods() -> st.SearchStrategy[JSONObject]:
    """Pods that say something of what policies speak of, often little enough to be admitted."""
    sources: list[JSONObject] = [
        {"emptyDir": {}},
        {"hostPath": {"path": "/a/c"}},
        {"projected": {"sources": []}},
        {},
    ]
    volumes = st.sampled_from(sources).map(_volume)
    annotations = optional(
        {},
        **{
            f"{_SECCOMP}/pod": _PROFILES,
            f"container.{_SECCOMP}/c": _PROFILES,
            f"container.{_APP_ARMOR}/c": _PROFILES,
        },
    )
    spec = optional(
        {"containers": st.tuples(_containers("c")).map(list)},
        securityContext=_pod_contexts(),
        initContainers=st.lists(_containers("i"), max_size=1),
        volumes=st.lists(volumes, max_size=1),
        hostNetwork=st.sampled_from([False, False, True]),
        runtimeClassName=st.sampled_from([None, "a", "c"]),
    )
    metadata = optional({"name": st.just("web")}, annotations=annotations)
    return optional({"apiVersion": st.just("v1"), "kind": st.just("Pod"), "metadata": metadata, "spec": spec})
