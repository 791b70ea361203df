"""Bypasses of the Pod Security Standards: every list of containers, kind of workload, exemption, and spelling.

The expected decisions are Kubernetes', written here as sets of words: ``policy/check_*.go`` of
``k8s.io/pod-security-admission``.
"""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

from pratique.admission.controllers import Handler
from pratique.admission.results import Answer, Deny
from pratique.admission.reviews import Review
from pratique.apimachinery.json_values import JSONObject
from pratique.apimachinery.requests import UserInfo
from pratique.cluster.store import ObjectStore
from pratique.controllers.pod_security.pods import WORKLOADS
from pratique.pods.pod_spec import CONTAINER_FIELDS
from support.admissions import review_of
from support.lookalike_words import spellings
from support.pod_security_cases import labelled
from support.pod_security_reviews import half

SAFE = {
    "allowPrivilegeEscalation": False,
    "runAsNonRoot": True,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}
"""What the level ``restricted`` requires of a container."""

BASELINE_CAPABILITIES = {
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
}
SYSCTLS = [
    "kernel.shm_rmid_forced",
    *(f"net.ipv4.{name}" for name in ("ip_local_port_range", "tcp_syncookies", "ping_group_range")),
    *(f"net.ipv4.{name}" for name in ("ip_unprivileged_port_start", "ip_local_reserved_ports")),
    *(f"net.ipv4.{name}" for name in ("tcp_keepalive_time", "tcp_fin_timeout", "tcp_keepalive_intvl")),
    *(f"net.ipv4.{name}" for name in ("tcp_keepalive_probes", "tcp_rmem", "tcp_wmem")),
    *(f"net.ipv4.{name}" for name in ("tcp_slow_start_after_idle", "tcp_notsent_lowat")),
]
APP_ARMOR = "container.apparmor.security.beta.kubernetes.io/"
VOLUMES = [
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "image",
    "persistentVolumeClaim",
    "projected",
    "secret",
]
FORBIDDEN_VOLUMES = [
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "gitRepo",
    "nfs",
    "iscsi",
    "glusterfs",
    "rbd",
    "flexVolume",
    "cinder",
    "cephfs",
    "flocker",
    "fc",
    "azureFile",
    "vsphereVolume",
    "quobyte",
    "azureDisk",
    "photonPersistentDisk",
    "portworxVolume",
    "scaleIO",
    "storageos",
]


@dataclasses.dataclass(frozen=True)
class Setting:
    """A place in a Pod for a word."""

    level: str
    write: Callable[[JSONObject, JSONObject, str], object]
    """Writes the word into a Pod, or into the container under test."""
    words: tuple[str, ...]
    """All spellings of each of these are tried."""
    allows: Callable[[str], bool]
    """What Kubernetes allows."""
    respelled: bool = True

    def values(self) -> list[str]:
        """All words that are tried."""
        every = [spellings(word) if self.respelled else [word] for word in self.words]
        return list(dict.fromkeys(itertools.chain.from_iterable(every)))


def _context(**members: Any) -> Callable[[JSONObject, JSONObject, str], object]:
    """Write into the container's security context; ``...`` stands for the word."""

    def filled(value: Any, word: str) -> Any:
        if isinstance(value, dict):
            return {name: filled(inner, word) for name, inner in value.items()}
        if isinstance(value, list):
            return [filled(inner, word) for inner in value]
        return word if value is ... else value

    return lambda pod, container, word: container["securityContext"].update(filled(members, word))


def _sysctl(pod: JSONObject, container: JSONObject, word: str) -> None:
    pod["spec"]["securityContext"] = {"sysctls": [{"name": word, "value": "1"}]}


def _annotation(pod: JSONObject, container: JSONObject, word: str) -> None:
    pod["metadata"]["annotations"] = {f"{APP_ARMOR}{container['name']}": word}


def _volume(pod: JSONObject, container: JSONObject, word: str) -> None:
    pod["spec"]["volumes"] = [{"name": "v", word: {}}]


def _probe(pod: JSONObject, container: JSONObject, word: str) -> None:
    container["livenessProbe"] = {"httpGet": {"host": word, "port": 80}}


SETTINGS = {
    "added capabilities": Setting(
        "baseline",
        _context(capabilities={"add": [...], "drop": ["ALL"]}),
        ("SYS_ADMIN", "CHOWN", "ALL", "NET_BIND_SERVICE"),
        lambda word: word in BASELINE_CAPABILITIES,
    ),
    "added capabilities, restricted": Setting(
        "restricted",
        _context(capabilities={"add": [...], "drop": ["ALL"]}),
        ("NET_BIND_SERVICE", "CHOWN"),
        lambda word: word == "NET_BIND_SERVICE",
    ),
    "dropped capabilities": Setting(
        "restricted", _context(capabilities={"drop": [...]}), ("ALL",), lambda word: word == "ALL"
    ),
    "seccomp": Setting(
        "baseline",
        _context(seccompProfile={"type": ...}),
        ("Unconfined", "RuntimeDefault", "Localhost", "runtime/default"),
        lambda word: word in {"RuntimeDefault", "Localhost"},
    ),
    "AppArmor": Setting(
        "baseline",
        _context(appArmorProfile={"type": ...}),
        ("Unconfined", "RuntimeDefault"),
        lambda word: word in {"RuntimeDefault", "Localhost"},
    ),
    "AppArmor's annotation": Setting(
        "baseline",
        _annotation,
        ("unconfined", "runtime/default", "localhost/a"),
        lambda word: word in {"", "runtime/default"} or word.startswith("localhost/"),
    ),
    "sysctls": Setting(
        "baseline",
        _sysctl,
        ("kernel.msgmax", "net.ipv4.tcp_rmem", "net/ipv4/tcp_rmem"),
        lambda word: word in SYSCTLS,
    ),
    "SELinux types": Setting(
        "baseline",
        _context(seLinuxOptions={"type": ...}),
        ("container_t", "spc_t"),
        lambda word: word in {"", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"},
    ),
    "SELinux users": Setting(
        "baseline", _context(seLinuxOptions={"user": ...}), ("system_u",), lambda word: not word
    ),
    "proc mounts": Setting(
        "baseline",
        _context(procMount=...),
        ("Default", "Unmasked"),
        lambda word: word == "Default",
    ),
    "hosts of probes": Setting(
        "baseline", _probe, ("127.0.0.1", "localhost", "169.254.169.254"), lambda word: not word
    ),
    "volumes": Setting(
        "restricted", _volume, (*VOLUMES, *FORBIDDEN_VOLUMES), lambda word: word in VOLUMES, respelled=False
    ),
    # An API server knows fields only by their exact names, drops these, and makes the volume an emptyDir. These
    # reviews have not been through one, and a volume without an allowed source is forbidden.
    "volumes that are none": Setting(
        "restricted",
        _volume,
        ("HostPath", "hostpath", "HOSTPATH", "host_path", "hostPath ", "ｈostPath"),  # noqa: RUF001 - on purpose
        lambda word: False,
        respelled=False,
    ),
}
NAMESPACES = {
    (level, exempt): f"{level}-{exempt}" for level in ("baseline", "restricted") for exempt in (0, 1)
}
CLUSTER = ObjectStore([labelled(name, enforce=level, warn=level) for (level, _), name in NAMESPACES.items()])
EXEMPTING = half(
    usernames=["root"],
    runtimeClasses=["sandbox"],
    namespaces=[name for (_, exempt), name in NAMESPACES.items() if exempt],
)
KINDS = {("", "pods"): ("Pod", ()), **WORKLOADS}
EXEMPTIONS = list(itertools.product((0, 1), repeat=3))
"""Whether the user, the runtime class and the namespace are exempt."""


def pod_of(setting: Setting, field: str, word: str, *, sandboxed: int) -> JSONObject:
    container = {"name": "c", "image": "i", "securityContext": dict(SAFE)}
    spec: JSONObject = {"containers": [{"name": "other", "image": "i", "securityContext": dict(SAFE)}]}
    spec[field] = [*spec.get(field, []), container]
    if sandboxed:
        spec["runtimeClassName"] = "sandbox"
    pod: JSONObject = {"metadata": {"name": "test"}, "spec": spec}
    setting.write(pod, container, word)
    return pod


def reviews_of(setting: Setting, kind: tuple[str, str]) -> Iterator[tuple[Review, bool, str]]:
    """All reviews of a setting and a kind, whether Kubernetes would allow them, and their names."""
    group, resource = kind
    name, template = KINDS[kind]
    for field, word, (user, sandboxed, namespace) in itertools.product(
        CONTAINER_FIELDS, setting.values(), EXEMPTIONS
    ):
        pod = pod_of(setting, field, word, sandboxed=sandboxed)
        for step in reversed(template):
            pod = {step: pod}
        request = {
            "operation": "CREATE",
            "kind": {"group": group, "version": "v1", "kind": name},
            "resource": {"group": group, "version": "v1", "resource": resource},
            "namespace": NAMESPACES[setting.level, namespace],
            "name": "test",
            "userInfo": {"username": "root" if user else "ann"},
            "object": {"kind": name, "metadata": {"name": "test"}, **pod},
        }
        passes = setting.allows(word) or bool(user or sandboxed or namespace)
        yield review_of(request, CLUSTER), passes, f"{field} {word!r} {user}{sandboxed}{namespace}"


async def found_by(validate: Handler, review: Review) -> Answer:
    answer: Any = validate(review)
    found: Answer = await answer if inspect.isawaitable(answer) else answer
    return found


@pytest.mark.parametrize("setting", SETTINGS.values(), ids=SETTINGS)
def test_no_spelling_bypasses_a_level(setting: Setting) -> None:
    async def judge() -> list[str]:
        wrong = []
        for kind in KINDS:
            for review, passes, title in reviews_of(setting, kind):
                answer = await found_by(EXEMPTING, review)
                # Violations of a workload cause warnings; its Pods are denied when they are created.
                passed = not isinstance(answer, Deny) if kind == ("", "pods") else not answer.warnings
                if passed is not passes:
                    wrong.append(f"{kind} {title}")
        return wrong

    assert asyncio.run(judge()) == []


def test_two_hundred_spellings_are_tried() -> None:
    assert sum(len(setting.values()) for setting in SETTINGS.values()) >= 200
    assert len(KINDS) * len(CONTAINER_FIELDS) * len(EXEMPTIONS) >= 7 * 3 * 2**3


EXEMPT_WORDS = {"usernames": "root", "runtimeClasses": "sandbox", "namespaces": "kube-system"}
"""By the field of the settings, the only exempt word in the tests below."""

EXEMPT_BY = {"usernames": "user", "runtimeClasses": "runtimeClass", "namespaces": "namespace"}
"""The audit annotation of each."""


def lookalikes(word: str) -> list[str]:
    """Every other word that a sloppy comparison may take for this one."""
    parts = [word[:-1], word[1:], word[: len(word) // 2], word[:1], word[-1:]]
    longer = [
        *(f"{word}{end}" for end in ("s", "-2", ".", "/x", "*", ".example.com")),
        *(f"{start}{word}" for start in ("x", "my-", "a.", "*")),
    ]
    patterns = ["*", ".*", "%", f"{word[:2]}*", word.replace(word[1], "?", 1), word.replace(word[1], ".", 1)]
    found = dict.fromkeys([*spellings(word), *parts, *longer, *patterns])
    return [word_like for word_like in found if word_like != word]


NEARLY_EXEMPT = [(field, lookalike) for field, word in EXEMPT_WORDS.items() for lookalike in lookalikes(word)]


def answer_to_one_who_is(field: str, word: str, kind: tuple[str, str]) -> Answer:
    """The answer to a Pod, or a workload, that only ``privileged`` allows."""
    pod = pod_of(SETTINGS["added capabilities"], "containers", "SYS_ADMIN", sandboxed=0)
    if field == "runtimeClasses":
        pod["spec"]["runtimeClassName"] = word
    name, template = KINDS[kind]
    for step in reversed(template):
        pod = {step: pod}
    namespace = word if field == "namespaces" else "shop"
    request = {
        "operation": "CREATE",
        "kind": {"group": kind[0], "version": "v1", "kind": name},
        "resource": {"group": kind[0], "version": "v1", "resource": kind[1]},
        "namespace": namespace,
        "name": "test",
        "object": {"kind": name, "metadata": {"name": "test"}, **pod},
    }
    review = review_of(
        request, ObjectStore([labelled(namespace or "none", enforce="baseline", warn="baseline")])
    )
    if field == "usernames":
        review = msgspec.structs.replace(review, user=UserInfo(word))
    return asyncio.run(found_by(half(**{field: [exempt] for field, exempt in EXEMPT_WORDS.items()}), review))


@pytest.mark.parametrize("kind", [("", "pods"), ("apps", "deployments")], ids=["Pod", "Deployment"])
@pytest.mark.parametrize(("field", "word"), EXEMPT_WORDS.items())
def test_the_exact_name_is_exempt(field: str, word: str, kind: tuple[str, str]) -> None:
    answer = answer_to_one_who_is(field, word, kind)
    assert not isinstance(answer, Deny)
    assert not answer.warnings
    assert list(answer.audit_annotations.values()) == [EXEMPT_BY[field]]


@pytest.mark.parametrize(("field", "word"), NEARLY_EXEMPT)
def test_only_the_exact_name_is_exempt(field: str, word: str) -> None:
    assert isinstance(answer_to_one_who_is(field, word, ("", "pods")), Deny)
    if word or field != "namespaces":  # a workload without a namespace causes no warnings
        assert answer_to_one_who_is(field, word, ("apps", "deployments")).warnings


def test_an_object_that_is_being_deleted_is_evaluated_too() -> None:
    pod = pod_of(SETTINGS["added capabilities"], "containers", "SYS_ADMIN", sandboxed=0)
    pod["metadata"] |= {"deletionTimestamp": "2001-01-01T00:00:00Z", "finalizers": ["example.com/wait"]}
    request = {
        "operation": "CREATE",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "namespace": NAMESPACES["baseline", 0],
        "name": "test",
        "object": pod,
    }
    assert isinstance(asyncio.run(found_by(EXEMPTING, review_of(request, CLUSTER))), Deny)
