"""The defaults and the errors of a policy, word for word."""

from __future__ import annotations

import pytest
from hypothesis import given

from pratique.admission.results import Edits
from pratique.apimachinery.json_values import JSON, JSONObject, member
from pratique.apimachinery.patches import apply_patch
from pratique.controllers.pod_security_policy.providers import (
    RELEASE_1_10,
    RELEASE_1_24,
    ReleaseBehavior,
    make_provider,
)
from pratique.controllers.pod_security_policy.strategies import (
    SAFE_SYSCTLS,
    SYSCTLS_ANNOTATION,
    UNSAFE_SYSCTLS_ANNOTATION,
)
from support.pod_security_policies import pod_with_context, policy
from support.strategies.pod_security_policies import confined_pods, policies

RANGES = [{"min": 10, "max": 20}, {"min": 30, "max": 30}]
MUST = {"rule": "MustRunAs", "ranges": RANGES}
MAY = {"rule": "MayRunAs", "ranges": RANGES}
NON_ROOT = {"rule": "MustRunAsNonRoot"}
SECCOMP = "seccomp.security.alpha.kubernetes.io"
APP_ARMOR = "apparmor.security.beta.kubernetes.io"


def filled(
    reviewed: JSONObject, release: ReleaseBehavior = RELEASE_1_24, *, annotations: JSON = None, **spec: JSON
) -> Edits:
    return make_provider(policy(annotations=annotations, **spec), release).with_defaults(reviewed)


def errors_in(
    reviewed: JSONObject, release: ReleaseBehavior = RELEASE_1_24, *, annotations: JSON = None, **spec: JSON
) -> list[str]:
    """The errors of a Pod that has the policy's defaults."""
    provider = make_provider(policy(annotations=annotations, **spec), release)
    return list(map(str, provider.errors(provider.with_defaults(reviewed).document)))


def errors_without_defaults(reviewed: JSONObject, *, annotations: JSON = None, **spec: JSON) -> list[str]:
    """The errors of a Pod without the policy's defaults."""
    return list(map(str, make_provider(policy(annotations=annotations, **spec)).errors(reviewed)))


def in_container(document: JSON, *path: str) -> JSON:
    return member(document, "spec", "containers", 0, "securityContext", *path)


def in_pod(document: JSON, *path: str) -> JSON:
    return member(document, "spec", "securityContext", *path)


def test_a_policy_without_requirements_changes_nothing() -> None:
    assert not filled(pod_with_context()).changed
    assert errors_in(pod_with_context()) == []


def test_defaults_of_a_policy_are_set() -> None:
    found = filled(
        pod_with_context(),
        runAsUser=MUST,
        runAsGroup=MUST,
        fsGroup=MUST,
        supplementalGroups=MUST,
        seLinux={"rule": "MustRunAs", "seLinuxOptions": {"level": "s0", "user": ""}},
        requiredDropCapabilities=["B", "A"],
        defaultAddCapabilities=["C"],
        readOnlyRootFilesystem=True,
        allowPrivilegeEscalation=False,
        runtimeClass={"defaultRuntimeClassName": "gvisor"},
        annotations={
            f"{SECCOMP}/defaultProfileName": "runtime/default",
            f"{APP_ARMOR}/defaultProfileName": "localhost/a",
        },
    ).document
    assert in_pod(found) == {
        "supplementalGroups": [10],
        "fsGroup": 10,
        "seLinuxOptions": {"level": "s0"},
    }
    assert in_container(found) == {
        "runAsUser": 10,
        "runAsGroup": 10,
        "capabilities": {"add": ["C"], "drop": ["A", "B"]},
        "readOnlyRootFilesystem": True,
        "allowPrivilegeEscalation": False,
    }
    assert found["spec"]["runtimeClassName"] == "gvisor"
    assert found["metadata"]["annotations"] == {
        f"{SECCOMP}/pod": "runtime/default",
        f"container.{APP_ARMOR}/c": "localhost/a",
    }


def test_every_kind_of_container_gets_defaults() -> None:
    reviewed = pod_with_context(initContainers=[{"name": "i"}], ephemeralContainers=[{"name": "e"}])
    found = filled(reviewed, runAsUser=MUST).document["spec"]
    for field in ("initContainers", "containers", "ephemeralContainers"):
        assert found[field][0]["securityContext"] == {"runAsUser": 10}


def test_the_pods_security_context_applies_to_its_containers() -> None:
    reviewed = pod_with_context(
        securityContext={"runAsUser": 11, "runAsGroup": 12, "seLinuxOptions": {"level": "s0"}}
    )
    rule = {"rule": "MustRunAs", "seLinuxOptions": {"level": "s0"}}
    assert not filled(reviewed, runAsUser=MUST, runAsGroup=MUST, seLinux=rule).changed
    assert errors_in(reviewed, runAsUser=MUST, runAsGroup=MUST, seLinux=rule) == []


@pytest.mark.parametrize(
    ("container", "pods", "expected"),
    [
        (None, None, True),
        ({"runAsNonRoot": False}, None, False),
        ({"runAsUser": 1}, None, None),
        (None, {"runAsUser": 0}, None),
        (None, {"runAsNonRoot": True}, None),
    ],
)
def test_an_image_must_not_run_as_root_if_no_user_is_set(container: JSON, pods: JSON, expected: JSON) -> None:
    found = filled(pod_with_context(container=container, securityContext=pods), runAsUser=NON_ROOT)
    assert in_container(found.document, "runAsNonRoot") is expected


@pytest.mark.parametrize(
    ("spec", "own", "expected"),
    [
        ({}, None, None),
        ({"allowPrivilegeEscalation": False}, None, False),
        ({"defaultAllowPrivilegeEscalation": False}, None, False),
        ({"defaultAllowPrivilegeEscalation": True}, None, True),
        ({"defaultAllowPrivilegeEscalation": True, "allowPrivilegeEscalation": False}, None, True),
        ({"defaultAllowPrivilegeEscalation": False}, True, True),
    ],
)
def test_privilege_escalation_follows_the_policy_unless_the_container_sets_it(
    spec: JSONObject, own: JSON, expected: JSON
) -> None:
    container = None if own is None else {"allowPrivilegeEscalation": own}
    found = filled(pod_with_context(container=container), **spec)
    assert in_container(found.document, "allowPrivilegeEscalation") is expected


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (None, {"add": ["D"], "drop": ["R"]}),
        ({"add": ["Z", "A"]}, {"add": ["A", "D", "Z"], "drop": ["R"]}),
        ({"drop": ["D"]}, {"drop": ["D", "R"]}),
        ({"add": ["D"], "drop": ["R"]}, {"add": ["D"], "drop": ["R"]}),
        ({"add": ["Z", "D"], "drop": ["R", "Q"]}, {"add": ["Z", "D"], "drop": ["R", "Q"]}),
        ({"add": [], "drop": ["D", "R"]}, {"add": [], "drop": ["D", "R"]}),
    ],
)
def test_default_capabilities_are_added_unless_dropped(asked: JSON, expected: JSONObject) -> None:
    container = None if asked is None else {"capabilities": asked}
    found = filled(
        pod_with_context(container=container), defaultAddCapabilities=["D"], requiredDropCapabilities=["R"]
    )
    assert in_container(found.document, "capabilities") == expected


def test_a_runtime_class_or_profile_of_the_pod_is_kept() -> None:
    key = f"container.{APP_ARMOR}/c"
    reviewed = pod_with_context(
        annotations={key: "localhost/b", f"{SECCOMP}/pod": "unconfined"}, runtimeClassName=""
    )
    found = filled(
        reviewed,
        runtimeClass={"defaultRuntimeClassName": "gvisor"},
        annotations={f"{APP_ARMOR}/defaultProfileName": "a", f"{SECCOMP}/defaultProfileName": "b"},
    )
    assert not found.changed


AT = "spec.containers[0].securityContext"
NIL_GROUPS = "Invalid value: []int64(nil): unable to validate empty groups against required ranges"


@pytest.mark.parametrize(
    ("spec", "container", "expected"),
    [
        (
            {"runAsUser": MUST},
            {"runAsUser": 21},
            f"{AT}.runAsUser: Invalid value: 21: must be in the ranges: [{{10 20}} {{30 30}}]",
        ),
        ({"runAsUser": MUST}, {"runAsUser": 30}, None),
        (
            {"runAsUser": NON_ROOT},
            {"runAsUser": 0},
            f"{AT}.runAsUser: Invalid value: 0: running with the root UID is forbidden",
        ),
        (
            {"runAsUser": NON_ROOT},
            {"runAsNonRoot": False, "runAsUser": 1},
            f"{AT}.runAsNonRoot: Invalid value: false: must be true",
        ),
        ({"runAsUser": NON_ROOT}, {"runAsNonRoot": True}, None),
        (
            {"runAsGroup": MUST},
            {"runAsGroup": 1},
            f"{AT}: Invalid value: []int64{{1}}: group 1 must be in the ranges: [{{10 20}} {{30 30}}]",
        ),
        (
            {"runAsGroup": MAY},
            {"runAsGroup": 1},
            f"{AT}: Invalid value: []int64{{1}}: group 1 must be in the ranges: [{{10 20}} {{30 30}}]",
        ),
        ({"runAsGroup": MAY}, {}, None),
        (
            {},
            {"privileged": True},
            f"{AT}.privileged: Invalid value: true: Privileged containers are not allowed",
        ),
        ({"privileged": True}, {"privileged": True}, None),
        (
            {},
            {"procMount": "Unmasked"},
            f'{AT}.procMount: Invalid value: "Unmasked": ProcMountType is not allowed',
        ),
        ({"allowedProcMountTypes": ["Unmasked"]}, {"procMount": "Unmasked"}, None),
        (
            {"allowedProcMountTypes": ["Unmasked"]},
            {},
            f'{AT}.procMount: Invalid value: "Default": ProcMountType is not allowed',
        ),
        (
            {},
            {"capabilities": {"add": ["NET_ADMIN"]}},
            f'{AT}.capabilities.add: Invalid value: "NET_ADMIN": capability may not be added',
        ),
        ({"allowedCapabilities": ["*"]}, {"capabilities": {"add": ["NET_ADMIN"]}}, None),
        ({"defaultAddCapabilities": ["A"]}, {"capabilities": {"add": ["A"]}}, None),
        (
            {"readOnlyRootFilesystem": True},
            {"readOnlyRootFilesystem": False},
            f"{AT}.readOnlyRootFilesystem: Invalid value: false: ReadOnlyRootFilesystem must be set to true",
        ),
        (
            {"allowPrivilegeEscalation": False},
            {"allowPrivilegeEscalation": True},
            (
                f"{AT}.allowPrivilegeEscalation: Invalid value: true: "
                "Allowing privilege escalation for containers is not allowed"
            ),
        ),
    ],
)
def test_forbidden_fields_of_a_container_are_reported(
    spec: JSONObject, container: JSONObject, expected: str | None
) -> None:
    assert errors_in(pod_with_context(container=container), **spec) == (
        [] if expected is None else [expected]
    )


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"runAsUser": MUST}, [f"{AT}.runAsUser: Required value"]),
        ({"runAsUser": NON_ROOT}, [f"{AT}.runAsNonRoot: Required value: must be true"]),
        ({"runAsGroup": MUST}, [f"{AT}: {NIL_GROUPS}"]),
        ({"fsGroup": MUST}, [f"spec.securityContext.fsGroup: {NIL_GROUPS}"]),
        ({"supplementalGroups": MUST}, [f"spec.securityContext.supplementalGroups: {NIL_GROUPS}"]),
        (
            {"seLinux": {"rule": "MustRunAs", "seLinuxOptions": {}}},
            ["spec.securityContext.seLinuxOptions: Required value", f"{AT}.seLinuxOptions: Required value"],
        ),
        (
            {"requiredDropCapabilities": ["A"]},
            [
                (
                    f'{AT}.capabilities: Invalid value: "null": '
                    "required capabilities are not set on the securityContext"
                )
            ],
        ),
        (
            {"readOnlyRootFilesystem": True},
            [
                (
                    f'{AT}.readOnlyRootFilesystem: Invalid value: "null": '
                    "ReadOnlyRootFilesystem may not be nil and must be set to true"
                )
            ],
        ),
        (
            {"allowPrivilegeEscalation": False},
            [
                (
                    f'{AT}.allowPrivilegeEscalation: Invalid value: "null": '
                    "Allowing privilege escalation for containers is not allowed"
                )
            ],
        ),
    ],
)
def test_required_fields_that_are_missing_are_reported(spec: JSONObject, expected: list[str]) -> None:
    assert errors_without_defaults(pod_with_context(), **spec) == expected


@pytest.mark.parametrize(
    ("drop", "printed"),
    [
        (["B"], '[]core.Capability{"B"}'),
        ([], "[]core.Capability{}"),
        (None, "[]core.Capability(nil)"),
    ],
)
def test_capabilities_that_must_be_dropped_are_reported(drop: JSON, printed: str) -> None:
    reviewed = pod_with_context(container={"capabilities": {"drop": drop}})
    assert errors_without_defaults(reviewed, requiredDropCapabilities=["A"]) == [
        f"{AT}.capabilities.drop: Invalid value: {printed}: A is required to be dropped but was not found"
    ]


@pytest.mark.parametrize("field", ["hostNetwork", "hostPID", "hostIPC"])
def test_sharing_namespaces_of_the_node_must_be_allowed(field: str) -> None:
    called = field.removeprefix("host").replace("Network", "network")
    reviewed = pod_with_context(**{field: True})
    expected = f"spec.securityContext.{field}: Invalid value: true: Host {called} is not allowed to be used"
    assert errors_in(reviewed) == [expected]
    spec: JSONObject = {field: True}
    assert errors_in(reviewed, **spec) == []


@pytest.mark.parametrize("rule", [MUST, MAY])
@pytest.mark.parametrize("field", ["fsGroup", "supplementalGroups"])
def test_groups_must_be_in_the_ranges(field: str, rule: JSONObject) -> None:
    value = 1 if field == "fsGroup" else [1]
    reviewed = pod_with_context(securityContext={field: value})
    spec: JSONObject = {field: rule}
    assert errors_in(reviewed, **spec) == [
        (
            f"spec.securityContext.{field}: Invalid value: []int64{{1}}: "
            "group 1 must be in the ranges: [{10 20} {30 30}]"
        )
    ]


def test_every_supplemental_group_outside_the_ranges_is_reported() -> None:
    reviewed = pod_with_context(securityContext={"supplementalGroups": [1, 10, 2]})
    at = "spec.securityContext.supplementalGroups: Invalid value: []int64{1, 10, 2}"
    assert errors_in(reviewed, supplementalGroups=MUST) == [
        f"{at}: group {group} must be in the ranges: [{{10 20}} {{30 30}}]" for group in (1, 2)
    ]


def test_an_empty_list_of_groups_gets_no_default() -> None:
    reviewed = pod_with_context(securityContext={"supplementalGroups": []})
    assert not filled(reviewed, supplementalGroups=MUST).changed
    assert errors_in(reviewed, supplementalGroups=MUST) == [
        (
            "spec.securityContext.supplementalGroups: Invalid value: []int64{}: "
            "unable to validate empty groups against required ranges"
        )
    ]


@pytest.mark.parametrize(
    ("labels", "wrong"),
    [
        ({"level": "s0:c1,c2"}, []),
        ({"level": "s0:c2,c1"}, []),
        ({"level": "s1:c1,c2"}, [("level", "s1:c1,c2", "s0:c1,c2")]),
        ({"level": "s0"}, [("level", "s0", "s0:c1,c2")]),
        ({"level": "s0:c1"}, [("level", "s0:c1", "s0:c1,c2")]),
        (
            {"role": "r", "type": "t", "user": "u"},
            [("level", "", "s0:c1,c2"), ("role", "r", ""), ("type", "t", ""), ("user", "u", "")],
        ),
    ],
)
def test_selinux_labels_must_be_those_of_the_policy(
    labels: JSONObject, wrong: list[tuple[str, str, str]]
) -> None:
    rule = {"rule": "MustRunAs", "seLinuxOptions": {"level": "s0:c1,c2"}}
    texts = [f'{name}: Invalid value: "{found}": must be {right}' for name, found, right in wrong]
    of_pod, of_container = "spec.securityContext.seLinuxOptions", f"{AT}.seLinuxOptions"
    expected = [f"{at}.{text}" for at in (of_pod, of_container) for text in texts]
    assert errors_in(pod_with_context(securityContext={"seLinuxOptions": labels}), seLinux=rule) == expected


@pytest.mark.parametrize(
    ("port", "ports", "printed"),
    [
        (0, [], None),
        (80, [{"min": 1, "max": 80}], None),
        (80, [], ""),
        (80, [{"min": 1, "max": 10}, {"min": 7, "max": 7}], "1-10,7"),
    ],
)
def test_host_ports_must_be_in_the_ranges(port: int, ports: list[JSONObject], printed: str | None) -> None:
    reviewed = pod_with_context(
        containers=[{"name": "c", "ports": [{"containerPort": 1}, {"hostPort": port}]}]
    )
    text = (
        f"spec.containers[0].hostPort: Invalid value: {port}: "
        f"Host port {port} is not allowed to be used. Allowed ports: [{printed}]"
    )
    assert errors_in(reviewed, hostPorts=ports) == ([] if printed is None else [text])


@pytest.mark.parametrize(
    ("name", "allowed", "text"),
    [
        (None, [], None),
        ("a", ["a"], None),
        ("a", ["*"], None),
        ("a", ["b"], 'spec.runtimeClassName: Invalid value: "a"'),
        ("", [], 'spec.runtimeClassName: Invalid value: ""'),
    ],
)
def test_runtime_classes_must_be_allowed(name: str | None, allowed: list[str], text: str | None) -> None:
    found = errors_in(
        pod_with_context(runtimeClassName=name), runtimeClass={"allowedRuntimeClassNames": allowed}
    )
    assert found == ([] if text is None else [text])


def sysctls(*names: str) -> JSONObject:
    return pod_with_context(securityContext={"sysctls": [{"name": name, "value": "1"} for name in names]})


@pytest.mark.parametrize(
    ("names", "spec", "texts"),
    [
        (SAFE_SYSCTLS, {}, []),
        (
            ("kernel.msgmax", "net.core.x"),
            {"allowedUnsafeSysctls": ["net.*"]},
            ['[0]: Forbidden: unsafe sysctl "kernel.msgmax" is not allowed'],
        ),
        (("kernel.msgmax",), {"allowedUnsafeSysctls": ["*"]}, []),
        (
            SAFE_SYSCTLS[:1],
            {"forbiddenSysctls": ["kernel.*"]},
            [f'[0]: Forbidden: sysctl "{SAFE_SYSCTLS[0]}" is not allowed'],
        ),
        (
            ("net.a", "net.b"),
            {"allowedUnsafeSysctls": ["*"], "forbiddenSysctls": ["net.b"]},
            ['[1]: Forbidden: sysctl "net.b" is not allowed'],
        ),
    ],
)
def test_sysctls_must_be_safe_or_allowed(names: tuple[str, ...], spec: JSONObject, texts: list[str]) -> None:
    assert errors_in(sysctls(*names), **spec) == [f"pod.spec.securityContext.sysctls{text}" for text in texts]
    assert errors_in(sysctls(*names), RELEASE_1_10, **spec) == []


@pytest.mark.parametrize("key", [SYSCTLS_ANNOTATION, UNSAFE_SYSCTLS_ANNOTATION])
@pytest.mark.parametrize(
    ("allowed", "asked", "text"),
    [
        (None, "a=1", None),
        ("", "", None),
        ("", "a=1", ': Invalid value: "a=1": sysctls are not allowed'),
        ("a.*,b", "a.c=1,b=2", None),
        ("a.*,b", "a.c=1,c=2", '[1]: Forbidden: sysctl "c" is not allowed'),
        ("*", "a", ': Invalid value: "a": sysctl "a" not of the format sysctl_name=value'),
        ("*", "b=1,=1", ': Invalid value: "b=1,=1": sysctl "=1" not of the format sysctl_name=value'),
    ],
)
def test_early_releases_check_sysctls_in_annotations(
    key: str, allowed: str | None, asked: str, text: str | None
) -> None:
    annotations = None if allowed is None else {SYSCTLS_ANNOTATION: allowed}
    reviewed = pod_with_context(annotations={key: asked})
    expected = [] if text is None else [f"pod.metadata.annotations[{key}]{text}"]
    assert errors_in(reviewed, RELEASE_1_10, annotations=annotations) == expected
    assert errors_in(reviewed, annotations=annotations) == []


@pytest.mark.parametrize(
    ("allowed", "default", "profile", "detail"),
    [
        (None, None, None, None),
        (None, None, "localhost/x", None),
        ("runtime/default,localhost/a", None, "localhost/a", None),
        ("localhost/a", "localhost/a", None, None),
        ("localhost/a", None, None, "AppArmor profile must be set"),
        ("localhost/a", None, "", "AppArmor profile must be set"),
        (
            "localhost/a",
            None,
            "localhost/b",
            'localhost/b is not an allowed profile. Allowed values: "localhost/a"',
        ),
    ],
)
def test_app_armor_profiles_get_defaults_and_must_be_allowed(
    allowed: JSON, default: JSON, profile: JSON, detail: str | None
) -> None:
    key = f"container.{APP_ARMOR}/c"
    said = {f"{APP_ARMOR}/allowedProfileNames": allowed, f"{APP_ARMOR}/defaultProfileName": default}
    reviewed = pod_with_context(annotations=None if profile is None else {key: profile})
    expected = [] if detail is None else [f"pod.metadata.annotations[{key}]: Forbidden: {detail}"]
    assert errors_in(reviewed, annotations=said) == expected


POD_KEY, CONTAINER_KEY = f"{SECCOMP}/pod", f"container.{SECCOMP}/c"
RUNTIME_DEFAULT = {"seccompProfile": {"type": "RuntimeDefault"}}
LOCALHOST = {"seccompProfile": {"type": "Localhost", "localhostProfile": "x"}}
UNCONFINED = {"seccompProfile": {"type": "Unconfined"}}
NOT_SET = "seccomp may not be set"


def not_allowed(profile: str, allowed: str) -> str:
    return f"{profile} is not an allowed seccomp profile. Valid values are {allowed}"


@pytest.mark.parametrize(
    ("allowed", "reviewed", "of_pod", "of_container"),
    [
        (None, pod_with_context(), None, None),
        (None, pod_with_context(annotations={POD_KEY: "unconfined"}), NOT_SET, NOT_SET),
        (None, pod_with_context(annotations={CONTAINER_KEY: "unconfined"}), None, NOT_SET),
        (None, pod_with_context(securityContext=RUNTIME_DEFAULT), NOT_SET, NOT_SET),
        (None, pod_with_context(container=RUNTIME_DEFAULT), None, NOT_SET),
        ("*", pod_with_context(), None, None),
        ("*", pod_with_context(container=UNCONFINED, annotations={POD_KEY: "x"}), None, None),
        ("a", pod_with_context(), not_allowed("", "a"), not_allowed("", "a")),
        ("a,b", pod_with_context(annotations={POD_KEY: "a"}), None, None),
        (
            "a,b",
            pod_with_context(annotations={POD_KEY: "a", CONTAINER_KEY: "c"}),
            None,
            not_allowed("c", "a,b"),
        ),
        (
            "localhost/x",
            pod_with_context(securityContext=LOCALHOST, container=UNCONFINED),
            None,
            not_allowed("unconfined", "localhost/x"),
        ),
        ("docker/default", pod_with_context(securityContext=RUNTIME_DEFAULT), None, None),
        ("runtime/default", pod_with_context(annotations={POD_KEY: "docker/default"}), None, None),
        (
            "runtime/default",
            pod_with_context(securityContext={"seccompProfile": {"type": "Localhost"}}),
            not_allowed("", "runtime/default"),
            not_allowed("", "runtime/default"),
        ),
        ("", pod_with_context(), None, None),
        ("", pod_with_context(annotations={POD_KEY: "a"}), not_allowed("a", ""), not_allowed("a", "")),
    ],
)
def test_seccomp_profiles_get_defaults_and_must_be_allowed(
    allowed: JSON, reviewed: JSONObject, of_pod: JSON, of_container: JSON
) -> None:
    expected = [
        f"pod.metadata.annotations[{key}]: Forbidden: {detail}"
        for key, detail in ((POD_KEY, of_pod), (CONTAINER_KEY, of_container))
        if detail is not None
    ]
    assert errors_in(reviewed, annotations={f"{SECCOMP}/allowedProfileNames": allowed}) == expected


def test_a_pod_with_a_seccomp_field_gets_no_annotation() -> None:
    default = {f"{SECCOMP}/defaultProfileName": "localhost/d"}
    assert not filled(pod_with_context(securityContext=RUNTIME_DEFAULT), annotations=default).changed
    found = filled(pod_with_context(securityContext=RUNTIME_DEFAULT), RELEASE_1_10, annotations=default)
    assert found.document["metadata"]["annotations"] == {POD_KEY: "localhost/d"}


def test_early_releases_distinguish_runtime_defaults_and_ignore_fields() -> None:
    allowed = {f"{SECCOMP}/allowedProfileNames": "runtime/default"}
    docker = pod_with_context(annotations={POD_KEY: "docker/default"})
    assert len(errors_in(docker, RELEASE_1_10, annotations=allowed)) == 2
    assert errors_in(pod_with_context(securityContext=UNCONFINED), RELEASE_1_10) == []


def test_errors_come_in_kubernetes_order() -> None:
    reviewed = pod_with_context(
        container={"privileged": True, "capabilities": {"add": ["A"]}},
        hostNetwork=True,
        initContainers=[{"name": "i", "ports": [{"hostPort": 1}], "securityContext": {"runAsUser": 0}}],
        ephemeralContainers=[{"name": "e", "securityContext": {"privileged": True}}],
        volumes=[{"name": "v"}],
        securityContext={"fsGroup": 1, "sysctls": [{"name": "x"}], "supplementalGroups": [1]},
    )
    places = [
        text.partition(": ")[0]
        for text in errors_in(reviewed, runAsUser=NON_ROOT, fsGroup=MAY, supplementalGroups=MAY)
    ]
    assert places == [
        "spec.securityContext.fsGroup",
        "spec.securityContext.supplementalGroups",
        "spec.securityContext.hostNetwork",
        "pod.spec.securityContext.sysctls[0]",
        "spec.volumes[0]",
        "spec.initContainers[0].securityContext.runAsUser",
        "spec.initContainers[0].hostPort",
        "spec.containers[0].securityContext.privileged",
        "spec.containers[0].securityContext.capabilities.add",
        "spec.ephemeralContainers[0].securityContext.privileged",
    ]


@given(confined_pods(), policies("p"))
def test_a_second_pass_changes_nothing(reviewed: JSONObject, document: JSONObject) -> None:
    provider = make_provider(document)
    once = provider.with_defaults(reviewed)
    assert apply_patch(reviewed, once.operations) == once.document
    assert not provider.with_defaults(once.document).changed


EVERYTHING = policy(
    annotations={f"{SECCOMP}/allowedProfileNames": "*"},
    privileged=True,
    hostNetwork=True,
    hostPorts=[{"min": 0, "max": 65535}],
    volumes=["*"],
    allowedCapabilities=["*"],
    allowedUnsafeSysctls=["*"],
)


@given(confined_pods())
def test_a_policy_that_allows_everything_admits_every_pod_unchanged(reviewed: JSONObject) -> None:
    provider = make_provider(EVERYTHING)
    assert not provider.with_defaults(reviewed).changed
    assert provider.errors(reviewed) == []
