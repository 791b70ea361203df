"""The validations of all built-in kinds."""

from __future__ import annotations

from pratique.registry.custom_resources import definitions
from pratique.registry.validation import (
    admissionregistration,
    apiregistration,
    autoscaling,
    certificates,
    coordination,
    core_objects,
    device_resources,
    discovery,
    events,
    flowcontrol,
    jobs,
    limits_and_quotas,
    networking,
    nodes,
    persistent_volumes,
    pods,
    policy,
    rbac,
    runtime_classes,
    scheduling,
    services,
    stateful_sets,
    storage,
    storage_versions,
    workloads,
)
from pratique.registry.validation.kind_validation import ValidationTable

VALIDATIONS: ValidationTable = {
    **admissionregistration.VALIDATIONS,
    **apiregistration.VALIDATIONS,
    **autoscaling.VALIDATIONS,
    **certificates.VALIDATIONS,
    **coordination.VALIDATIONS,
    **core_objects.VALIDATIONS,
    **definitions.VALIDATIONS,
    **device_resources.VALIDATIONS,
    **discovery.VALIDATIONS,
    **events.VALIDATIONS,
    **flowcontrol.VALIDATIONS,
    **jobs.VALIDATIONS,
    **limits_and_quotas.VALIDATIONS,
    **networking.VALIDATIONS,
    **nodes.VALIDATIONS,
    **persistent_volumes.VALIDATIONS,
    **pods.VALIDATIONS,
    **policy.VALIDATIONS,
    **rbac.VALIDATIONS,
    **runtime_classes.VALIDATIONS,
    **scheduling.VALIDATIONS,
    **services.VALIDATIONS,
    **stateful_sets.VALIDATIONS,
    **storage.VALIDATIONS,
    **storage_versions.VALIDATIONS,
    **workloads.VALIDATIONS,
}
"""The validation of every built-in kind that has one."""
