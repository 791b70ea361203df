"""Providers: apply a policy's defaults to a Pod, and validate the Pod against it.

Source: ``pkg/security/podsecuritypolicy/{provider,factory}.go`` of 1.24.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from pratique.admission.results import Edits, Path
from pratique.apimachinery import statuses
from pratique.apimachinery.errors import InputError
from pratique.apimachinery.field_errors import FieldError, FieldPath, invalid
from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.controllers.pod_security_policy import profiles, strategies
from pratique.controllers.pod_security_policy.api_types import (
    SPEC,
    Container,
    Pod,
    PodSecurityContext,
    PodSecurityPolicy,
    PodSecurityPolicySpec,
    PodSpec,
    policy_name,
    read_pod,
    read_policy,
)

_ANNOTATIONS = ("metadata", "annotations")
_CONTEXT = ("spec", "securityContext")
_RUNTIME_CLASS = ("spec", "runtimeClassName")


class ReleaseBehavior(msgspec.Struct, frozen=True):
    """How releases that had policies differ."""

    prefix: str = "PodSecurityPolicy: "
    """The prefix of messages."""
    refused_by_mutation: str = "unable to admit pod"
    refused_by_validation: str = "unable to validate pod"
    fields: bool = True
    """Whether Pods set seccomp profiles and sysctls by fields. False: only by annotations."""


RELEASE_1_24 = ReleaseBehavior()
"""As 1.24, the last release with policies; releases since 1.19 behave the same."""
RELEASE_1_10 = ReleaseBehavior(
    prefix="",
    refused_by_mutation="unable to validate against any pod security policy",
    refused_by_validation="unable to validate against any pod security policy",
    fields=False,
)
"""As 1.10."""


class PolicyProvider(msgspec.Struct, frozen=True):
    """A valid policy."""

    policy: PodSecurityPolicy
    release: ReleaseBehavior = RELEASE_1_24

    def with_defaults(self, document: JSON) -> Edits:
        """Set the policy's defaults where the Pod leaves fields open.

        Raises:
            RefusalError: A field of the Pod has the wrong type; 400.
        """
        pod, spec, edits = read_pod(document), self.policy.spec, Edits(document)
        _fill_pod(edits, spec, pod.spec.context)
        seccomp = profiles.default_seccomp(self.policy, pod, fields=self.release.fields)
        if seccomp:
            edits.set((*_ANNOTATIONS, profiles.SECCOMP_POD_ANNOTATION), seccomp)
        if spec.runtime_class is not None and pod.spec.runtime_class_name is None:
            _set_default(edits, _RUNTIME_CLASS, spec.runtime_class.default_runtime_class_name)
        for path, container in pod.spec.all_containers():
            _fill_container(edits, spec, (*path.steps, "securityContext"), pod.spec, container)
            app_armor = profiles.default_app_armor(self.policy, pod, container)
            if app_armor is not None:
                key, profile = app_armor
                edits.set((*_ANNOTATIONS, key), profile)
        return edits

    def errors(self, document: JSON) -> list[FieldError]:
        """What the policy forbids in a Pod that has its defaults, in Kubernetes' order.

        Raises:
            RefusalError: A field of the Pod has the wrong type; 400.
        """
        pod = read_pod(document)
        return [
            *self._pod_errors(pod),
            *(
                error
                for path, container in pod.spec.all_containers()
                for error in self._container_errors(pod, container, path)
            ),
        ]

    def _pod_errors(self, pod: Pod) -> Iterator[FieldError]:
        spec, context, path = self.policy.spec, pod.spec.context, SPEC / "securityContext"
        fs_groups = None if context.fs_group is None else [context.fs_group]
        yield from strategies.group_errors(spec.fs_group, path / "fsGroup", fs_groups)
        yield from strategies.group_errors(
            spec.supplemental_groups, path / "supplementalGroups", context.supplemental_groups
        )
        yield from profiles.pod_seccomp_errors(self.policy, pod, fields=self.release.fields)
        yield from strategies.se_linux_errors(
            spec.se_linux, path / "seLinuxOptions", context.se_linux_options
        )
        yield from _host_errors(spec, pod.spec, path)
        if self.release.fields:
            yield from strategies.sysctl_errors(spec, pod)
        else:
            yield from strategies.sysctl_annotation_errors(self.policy, pod)
        yield from strategies.volume_errors(spec, pod.spec)
        yield from _runtime_class_errors(spec, pod.spec.runtime_class_name)

    def _container_errors(self, pod: Pod, container: Container, at: FieldPath) -> Iterator[FieldError]:
        spec, context, path = self.policy.spec, pod.spec.effective(container), at / "securityContext"
        yield from strategies.user_errors(spec.run_as_user, path, context)
        own_groups = None if context.run_as_group is None else [context.run_as_group]
        yield from strategies.group_errors(spec.run_as_group, path, own_groups)
        yield from strategies.se_linux_errors(
            spec.se_linux, path / "seLinuxOptions", context.se_linux_options
        )
        yield from profiles.app_armor_errors(self.policy, pod, container)
        yield from profiles.container_seccomp_errors(self.policy, pod, container, fields=self.release.fields)
        yield from strategies.privilege_errors(spec, path, context)
        yield from strategies.capability_errors(spec, path / "capabilities", context.capabilities)
        yield from strategies.port_errors(spec, at, container)
        yield from strategies.escalation_errors(spec, path, context)


def make_provider(document: JSONObject, release: ReleaseBehavior = RELEASE_1_24) -> PolicyProvider:
    """Parse and validate a policy.

    Raises:
        InputError: It is invalid. The text is the one that an API server logs.
    """
    try:
        policy = read_policy(document)
    except InputError as error:
        raise _provider_error(document, str(error)) from None
    misfits = [text for text in _strategy_errors(policy.spec) if text]
    if misfits:
        raise _provider_error(document, statuses.aggregate(misfits))
    return PolicyProvider(policy, release)


def _provider_error(document: JSONObject, reason: str) -> InputError:
    return InputError(f"error creating provider for PSP {policy_name(document)}: {reason}")


def _strategy_errors(spec: PodSecurityPolicySpec) -> tuple[str, ...]:
    return (
        strategies.user_strategy_error(spec.run_as_user),
        strategies.group_strategy_error("RunAsGroup", spec.run_as_group),
        strategies.se_linux_strategy_error(spec.se_linux),
        strategies.group_strategy_error("FSGroup", spec.fs_group),
        strategies.group_strategy_error("SupplementalGroups", spec.supplemental_groups),
    )


def _fill_pod(edits: Edits, spec: PodSecurityPolicySpec, context: PodSecurityContext) -> None:
    supplemental = strategies.default_group(spec.supplemental_groups)
    if context.supplemental_groups is None and supplemental is not None:
        edits.set((*_CONTEXT, "supplementalGroups"), [supplemental])
    if context.fs_group is None:
        _set_default(edits, (*_CONTEXT, "fsGroup"), strategies.default_group(spec.fs_group))
    labels = strategies.default_se_linux(spec.se_linux)
    if context.se_linux_options is None and labels is not None:
        edits.set((*_CONTEXT, "seLinuxOptions"), labels.document)


def _fill_container(
    edits: Edits, spec: PodSecurityPolicySpec, path: Path, pod: PodSpec, container: Container
) -> None:
    context = pod.effective(container)
    user = strategies.default_user(spec.run_as_user)
    if context.run_as_user is None:
        _set_default(edits, (*path, "runAsUser"), user)
    if context.run_as_group is None:
        _set_default(edits, (*path, "runAsGroup"), strategies.default_group(spec.run_as_group))
    if (
        context.run_as_non_root is None
        and context.run_as_user is None
        and spec.run_as_user.rule == strategies.MUST_RUN_AS_NON_ROOT
    ):
        edits.set((*path, "runAsNonRoot"), value=True)
    _fill_capabilities(edits, spec, (*path, "capabilities"), container)
    if spec.read_only_root_filesystem and context.read_only_root_filesystem is None:
        edits.set((*path, "readOnlyRootFilesystem"), value=True)
    if context.allow_privilege_escalation is None:
        default = spec.default_allow_privilege_escalation
        # A forbidden escalation is off by default, unless the policy contradicts itself.
        forbidden = None if spec.allow_privilege_escalation else False
        _set_default(edits, (*path, "allowPrivilegeEscalation"), forbidden if default is None else default)


def _fill_capabilities(edits: Edits, spec: PodSecurityPolicySpec, path: Path, container: Container) -> None:
    with_defaults = strategies.default_capabilities(spec, container.context.capabilities)
    if with_defaults is None:
        return
    for field, names in (("add", with_defaults.add), ("drop", with_defaults.drop)):
        if names:
            edits.set((*path, field), names)


def _set_default(edits: Edits, path: Path, value: JSON) -> None:
    """Set a default if there is one."""
    if value is not None:
        edits.set(path, value)


def _host_errors(spec: PodSecurityPolicySpec, pod: PodSpec, path: FieldPath) -> Iterator[FieldError]:
    """The errors in sharing the node's namespaces."""
    for shared, allowed, field, called in (
        (pod.host_network, spec.host_network, "hostNetwork", "network"),
        (pod.host_pid, spec.host_pid, "hostPID", "PID"),
        (pod.host_ipc, spec.host_ipc, "hostIPC", "IPC"),
    ):
        if shared and not allowed:
            yield invalid(path / field, shared, f"Host {called} is not allowed to be used")


def _runtime_class_errors(spec: PodSecurityPolicySpec, name: str | None) -> Iterator[FieldError]:
    if spec.runtime_class is None or name is None:
        return
    if not {"*", name} & set(spec.runtime_class.allowed_runtime_class_names):
        yield invalid(SPEC / "runtimeClassName", name, "")
