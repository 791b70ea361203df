"""Containers: what one of them may be allowed that would let it out of itself.

Source: ``pkg/security/podsecuritypolicy/provider.go`` ``validateContainer`` of 1.24.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.field_errors import FieldError, FieldPath, invalid
from pratique.pod_security_policies import go_values

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pratique.pod_security_policies.security_contexts import Container, ContainerContext
    from pratique.pod_security_policies.specs import Range, Spec

_DEFAULT_PROC_MOUNT = "Default"


def privilege_faults(spec: Spec, path: FieldPath, context: ContainerContext) -> Iterator[FieldError]:
    """What is wrong with being privileged and with how ``/proc`` is mounted; ``path`` is of the context."""
    if context.privileged and not spec.privileged:
        yield invalid(path / "privileged", True, "Privileged containers are not allowed")
    mounted = context.proc_mount
    if mounted is None:
        mounted = _DEFAULT_PROC_MOUNT
    if mounted not in (spec.allowed_proc_mount_types or (_DEFAULT_PROC_MOUNT,)):
        yield invalid(path / "procMount", mounted, "ProcMountType is not allowed")


def port_faults(spec: Spec, path: FieldPath, container: Container) -> Iterator[FieldError]:
    """What is wrong with the ports of the node that a container takes; ``path`` is of the container."""
    for port in container.ports or ():
        number = port.host_port or 0
        if number > 0 and not any(number in each for each in spec.host_ports):
            ports = _printed(spec.host_ports)
            detail = f"Host port {number} is not allowed to be used. Allowed ports: [{ports}]"
            yield invalid(path / "hostPort", number, detail)


def escape_faults(spec: Spec, path: FieldPath, context: ContainerContext) -> Iterator[FieldError]:
    """What is wrong with a root file system that can be written to, and with gaining privileges later."""
    read_only = context.read_only_root_filesystem
    if spec.read_only_root_filesystem and read_only is not True:
        at, unset = path / "readOnlyRootFilesystem", "may not be nil and must be set to true"
        detail = f"ReadOnlyRootFilesystem {unset if read_only is None else 'must be set to true'}"
        yield invalid(at, go_values.NIL if read_only is None else read_only, detail)
    escalation = context.allow_privilege_escalation
    if not spec.allow_privilege_escalation and escalation is not False:
        detail = "Allowing privilege escalation for containers is not allowed"
        found = go_values.NIL if escalation is None else escalation
        yield invalid(path / "allowPrivilegeEscalation", found, detail)


def _printed(ports: Sequence[Range]) -> str:
    return ",".join(str(each.min) if each.min == each.max else f"{each.min}-{each.max}" for each in ports)
