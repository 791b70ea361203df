"""Pods that the API server takes, drawn so that its admission plugins have something to say about them."""

from __future__ import annotations

from random import Random

from pratique.apimachinery.json_values import JSON, JSONObject

_IMAGES = ("nginx", "nginx:1.25", "nginx:latest", "registry.example/team/app@sha256:" + "0" * 64)
_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_CAPABILITIES = ("NET_BIND_SERVICE", "SYS_ADMIN", "CHOWN", "NET_RAW", "AUDIT_WRITE")
_SYSCTLS = (
    {"name": "kernel.shm_rmid_forced", "value": "1"},
    {"name": "net.ipv4.tcp_syncookies", "value": "1"},
    {"name": "kernel.msgmax", "value": "65536"},
)
_SECCOMP = (
    {"type": "RuntimeDefault"},
    {"type": "Unconfined"},
    {"type": "Localhost", "localhostProfile": "a.json"},
)
_APP_ARMOR = (
    {"type": "RuntimeDefault"},
    {"type": "Unconfined"},
    {"type": "Localhost", "localhostProfile": "a"},
)
_SELINUX = ({"type": "container_t"}, {"type": "spc_t"}, {"user": "u"}, {"role": "r"}, {"level": "s0:c1"})
_LABELS: tuple[dict[str, str], ...] = (
    {},
    {"app": "web"},
    {"app": "web", "tier": "front"},
    {"app": "db"},
    {"env": ""},
)
_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable", "dedicated", "example.com/gpu")


def pod_spec(random: Random) -> JSONObject:
    """The spec of a Pod."""
    spec: JSONObject = {"containers": _containers(random, "c", random.choice((1, 1, 1, 2)))}
    if random.random() < 0.2:
        spec["initContainers"] = _containers(random, "i", 1)
    drawn = (
        (0.35, "securityContext", _pod_security_context),
        (0.25, "tolerations", lambda chance: [_toleration(chance) for _ in range(chance.choice((1, 2)))]),
        (0.2, "nodeSelector", lambda chance: {chance.choice(("disk", "zone")): chance.choice(("ssd", "a"))}),
        (
            0.15,
            "priorityClassName",
            lambda chance: chance.choice(("high", "low", "missing", "system-node-critical")),
        ),
        (0.1, "serviceAccountName", lambda chance: chance.choice(("default", "robot", "missing"))),
        (0.1, "automountServiceAccountToken", lambda chance: chance.random() < 0.5),
        (0.3, "volumes", _volumes),
        (0.1, "affinity", _affinity),
        (0.08, "runtimeClassName", lambda chance: chance.choice(("plain", "heavy", "missing"))),
        (0.05, "nodeName", lambda chance: chance.choice(("n0", "n1"))),
        (0.05, "imagePullSecrets", lambda _chance: [{"name": "pull"}]),
        (0.05, "terminationGracePeriodSeconds", lambda chance: chance.choice((0, 5))),
    )
    spec |= {name: draw(random) for share, name, draw in drawn if random.random() < share}
    for name in ("hostNetwork", "hostPID", "hostIPC"):
        if random.random() < 0.05:
            spec[name] = True
    if random.random() < 0.05:
        spec["os"] = {"name": "linux"}
    _mount(random, spec)
    return spec


def pod_metadata(random: Random, name: str) -> JSONObject:
    """Labels and annotations of a Pod."""
    metadata: JSONObject = {"name": name}
    if labels := random.choice(_LABELS):
        metadata["labels"] = dict(labels)
    if random.random() < 0.1:
        metadata["annotations"] = {random.choice(("example.com/a", "kubernetes.io/description")): "1"}
    return metadata


def _containers(random: Random, prefix: str, count: int) -> list[JSON]:
    return [_container(random, f"{prefix}{index}") for index in range(count)]


def _container(random: Random, name: str) -> JSONObject:
    container: JSONObject = {"name": name, "image": random.choice(_IMAGES)}
    if random.random() < 0.25:
        container["imagePullPolicy"] = random.choice(_PULL_POLICIES)
    if random.random() < 0.6:
        container["resources"] = _resources(random)
    if random.random() < 0.4:
        container["securityContext"] = _security_context(random)
    if random.random() < 0.15:
        port: JSONObject = {"containerPort": random.choice((80, 8080))}
        if random.random() < 0.3:
            port["hostPort"] = port["containerPort"]
        container["ports"] = [port]
    if random.random() < 0.1:
        container["env"] = [_environment(random)]
    return container


def _environment(random: Random) -> JSONObject:
    source = random.choice(("secretKeyRef", "configMapKeyRef", None))
    if source is None:
        return {"name": "A", "value": "1"}
    return {"name": "A", "valueFrom": {source: {"name": "settings", "key": "a"}}}


def _resources(random: Random) -> JSONObject:
    requests = {
        "cpu": random.choice(("50m", "100m", "0.5")),
        "memory": random.choice(("32Mi", "64Mi", "100M")),
    }
    limits = {"cpu": random.choice(("500m", "1", "2")), "memory": random.choice(("128Mi", "1Gi", "2Gi"))}
    if random.random() < 0.1:
        requests["example.com/gpu"] = limits["example.com/gpu"] = "1"
    if random.random() < 0.1:
        requests["ephemeral-storage"], limits["ephemeral-storage"] = "1Gi", "2Gi"
    chosen = random.choice(("both", "requests", "limits", "cpu", "none"))
    if chosen == "cpu":
        return {"requests": {"cpu": requests["cpu"]}}
    return {
        name: amounts
        for name, amounts in (("requests", requests), ("limits", limits))
        if chosen in (name, "both") or "example.com/gpu" in amounts
    }


def _security_context(random: Random) -> JSONObject:
    context: JSONObject = {}
    drawn: tuple[tuple[float, str, tuple[JSON, ...]], ...] = (
        (0.1, "privileged", (True, False)),
        (0.4, "runAsNonRoot", (True, True, False)),
        (0.2, "runAsUser", (0, 1000)),
        (0.2, "seccompProfile", _SECCOMP),
        (0.1, "appArmorProfile", _APP_ARMOR),
        (0.1, "seLinuxOptions", _SELINUX),
        (0.1, "procMount", ("Default",)),
        (0.1, "readOnlyRootFilesystem", (True, False)),
    )
    for share, name, values in drawn:
        if random.random() < share:
            value = random.choice(values)
            context[name] = dict(value) if isinstance(value, dict) else value
    if not context.get("privileged") and random.random() < 0.5:
        context["allowPrivilegeEscalation"] = random.random() < 0.3
    if random.random() < 0.4:
        context["capabilities"] = _capabilities(random)
    if context.get("allowPrivilegeEscalation") is False and "SYS_ADMIN" in str(context.get("capabilities")):
        del context["allowPrivilegeEscalation"]  # the API server's validation refuses both together
    return context


def _capabilities(random: Random) -> JSONObject:
    capabilities: JSONObject = {}
    if random.random() < 0.6:
        capabilities["drop"] = [random.choice(("ALL", "ALL", "NET_RAW"))]
    if random.random() < 0.5:
        capabilities["add"] = random.sample(_CAPABILITIES, random.choice((1, 2)))
    return capabilities


def _pod_security_context(random: Random) -> JSONObject:
    context: JSONObject = {}
    drawn: tuple[tuple[float, str, tuple[JSON, ...]], ...] = (
        (0.5, "runAsNonRoot", (True, True, False)),
        (0.3, "runAsUser", (0, 1000)),
        (0.4, "seccompProfile", _SECCOMP),
        (0.1, "appArmorProfile", _APP_ARMOR),
        (0.1, "seLinuxOptions", _SELINUX),
        (0.2, "fsGroup", (0, 1000)),
        (0.1, "supplementalGroups", ([], [1000])),
    )
    for share, name, values in drawn:
        if random.random() < share:
            value = random.choice(values)
            context[name] = dict(value) if isinstance(value, dict) else value
    if random.random() < 0.15:
        context["sysctls"] = [dict(random.choice(_SYSCTLS))]
    return context


def _toleration(random: Random) -> JSONObject:
    toleration: JSONObject = {"key": random.choice(_TAINTS)}
    effect = random.choice(("NoExecute", "NoSchedule", ""))
    if effect:
        toleration["effect"] = effect
    if random.random() < 0.5:
        toleration["operator"] = "Exists"
    else:
        toleration |= {"operator": "Equal", "value": random.choice(("a", "b"))}
    if effect == "NoExecute" and random.random() < 0.5:
        toleration["tolerationSeconds"] = random.choice((0, 60))
    return toleration


def _volumes(random: Random) -> list[JSON]:
    sources: tuple[JSONObject, ...] = (
        {"emptyDir": {}},
        {"hostPath": {"path": "/var/log"}},
        {"configMap": {"name": "settings"}},
        {"secret": {"secretName": "pull"}},
        {"persistentVolumeClaim": {"claimName": "data"}},
        {"nfs": {"server": "nfs.example", "path": "/"}},
        {"downwardAPI": {"items": [{"path": "n", "fieldRef": {"fieldPath": "metadata.name"}}]}},
        {"projected": {"sources": [{"serviceAccountToken": {"path": "token", "expirationSeconds": 3600}}]}},
        {"csi": {"driver": "csi.example"}},
        {"image": {"reference": "registry.example/data"}},
        {"ephemeral": {"volumeClaimTemplate": {"spec": _claim_spec(random)}}},
    )
    chosen = random.sample(sources, random.choice((1, 1, 2)))
    return [{"name": f"v{index}", **source} for index, source in enumerate(chosen)]


def _claim_spec(random: Random) -> JSONObject:
    spec: JSONObject = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    if random.random() < 0.5:
        spec["storageClassName"] = random.choice(("fast", "slow"))
    return spec


def _affinity(random: Random) -> JSONObject:
    key = random.choice(("kubernetes.io/hostname", "topology.kubernetes.io/zone"))
    term = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": key}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def _mount(random: Random, spec: JSONObject) -> None:
    """Mount some volumes, one of them where the token of a ServiceAccount would be."""
    volumes, containers = spec.get("volumes"), spec["containers"]
    if not isinstance(volumes, list) or not isinstance(containers, list) or random.random() < 0.5:
        return
    token = "/var/run/secrets/kubernetes.io/serviceaccount"
    path = token if random.random() < 0.1 else "/data"
    first, volume = containers[0], volumes[0]
    if isinstance(first, dict) and isinstance(volume, dict):
        first["volumeMounts"] = [{"name": volume["name"], "mountPath": path}]
