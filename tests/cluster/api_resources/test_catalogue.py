"""The built-in resources, current and removed."""

from __future__ import annotations

import itertools

import pytest

from pratique.apimachinery.kinds import GroupVersionKind, GroupVersionResource, ResourceType
from pratique.cluster.api_resources import ApiResources, built_in_resources


def found(api_version: str, kind: str) -> ResourceType | None:
    group, _, version = api_version.rpartition("/")
    return built_in_resources().for_kind(GroupVersionKind(group, version, kind))


def resource(api_version: str, name: str) -> GroupVersionResource:
    group, _, version = api_version.rpartition("/")
    return GroupVersionResource(group, version, name)


@pytest.mark.parametrize(
    ("api_version", "kind", "name", "scope"),
    [
        ("v1", "Pod", "pods", "Namespaced"),
        ("v1", "Namespace", "namespaces", "Cluster"),
        ("v1", "Endpoints", "endpoints", "Namespaced"),
        ("v1", "Node", "nodes", "Cluster"),
        ("v1", "PersistentVolume", "persistentvolumes", "Cluster"),
        ("v1", "PersistentVolumeClaim", "persistentvolumeclaims", "Namespaced"),
        ("v1", "ReplicationController", "replicationcontrollers", "Namespaced"),
        ("v1", "ServiceAccount", "serviceaccounts", "Namespaced"),
        ("v1", "Binding", "bindings", "Namespaced"),
        ("v1", "Event", "events", "Namespaced"),
        ("events.k8s.io/v1", "Event", "events", "Namespaced"),
        ("apps/v1", "Deployment", "deployments", "Namespaced"),
        ("apps/v1", "StatefulSet", "statefulsets", "Namespaced"),
        ("batch/v1", "CronJob", "cronjobs", "Namespaced"),
        ("autoscaling/v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers", "Namespaced"),
        ("networking.k8s.io/v1", "Ingress", "ingresses", "Namespaced"),
        ("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies", "Namespaced"),
        ("networking.k8s.io/v1", "IngressClass", "ingressclasses", "Cluster"),
        ("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets", "Namespaced"),
        ("rbac.authorization.k8s.io/v1", "ClusterRole", "clusterroles", "Cluster"),
        ("rbac.authorization.k8s.io/v1", "RoleBinding", "rolebindings", "Namespaced"),
        ("scheduling.k8s.io/v1", "PriorityClass", "priorityclasses", "Cluster"),
        ("storage.k8s.io/v1", "StorageClass", "storageclasses", "Cluster"),
        ("storage.k8s.io/v1", "CSIStorageCapacity", "csistoragecapacities", "Namespaced"),
        ("certificates.k8s.io/v1", "CertificateSigningRequest", "certificatesigningrequests", "Cluster"),
        ("authorization.k8s.io/v1", "LocalSubjectAccessReview", "localsubjectaccessreviews", "Namespaced"),
        ("authorization.k8s.io/v1", "SubjectAccessReview", "subjectaccessreviews", "Cluster"),
        (
            "admissionregistration.k8s.io/v1",
            "ValidatingAdmissionPolicy",
            "validatingadmissionpolicies",
            False,
        ),
        ("apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions", "Cluster"),
        ("apiregistration.k8s.io/v1", "APIService", "apiservices", "Cluster"),
        ("resource.k8s.io/v1", "ResourceClaim", "resourceclaims", "Namespaced"),
    ],
)
def test_a_kind_is_mapped_to_its_collection_and_scope(
    api_version: str, kind: str, name: str, scope: str
) -> None:
    type_ = found(api_version, kind)
    assert type_ is not None
    assert type_.resource == resource(api_version, name)
    assert (type_.namespaced, type_.subresource, type_.removed_in) == (scope == "Namespaced", "", None)


@pytest.mark.parametrize(
    ("api_version", "kind", "name", "removed_in"),
    [
        ("extensions/v1beta1", "Deployment", "deployments", "1.16"),
        ("extensions/v1beta1", "DaemonSet", "daemonsets", "1.16"),
        ("extensions/v1beta1", "ReplicaSet", "replicasets", "1.16"),
        ("extensions/v1beta1", "NetworkPolicy", "networkpolicies", "1.16"),
        ("extensions/v1beta1", "PodSecurityPolicy", "podsecuritypolicies", "1.16"),
        ("extensions/v1beta1", "Ingress", "ingresses", "1.22"),
        ("apps/v1beta1", "StatefulSet", "statefulsets", "1.16"),
        ("apps/v1beta2", "DaemonSet", "daemonsets", "1.16"),
        ("policy/v1beta1", "PodDisruptionBudget", "poddisruptionbudgets", "1.25"),
        ("policy/v1beta1", "PodSecurityPolicy", "podsecuritypolicies", "1.25"),
        ("batch/v1beta1", "CronJob", "cronjobs", "1.25"),
        ("batch/v2alpha1", "CronJob", "cronjobs", "1.21"),
        ("networking.k8s.io/v1beta1", "Ingress", "ingresses", "1.22"),
        ("networking.k8s.io/v1beta1", "IngressClass", "ingressclasses", "1.22"),
        ("rbac.authorization.k8s.io/v1beta1", "Role", "roles", "1.22"),
        ("admissionregistration.k8s.io/v1beta1", "MutatingWebhookConfiguration",
         "mutatingwebhookconfigurations", "1.22"),
        ("admissionregistration.k8s.io/v1alpha1", "InitializerConfiguration",
         "initializerconfigurations", "1.14"),
        ("apiextensions.k8s.io/v1beta1", "CustomResourceDefinition", "customresourcedefinitions", "1.22"),
        ("autoscaling/v2beta1", "HorizontalPodAutoscaler", "horizontalpodautoscalers", "1.25"),
        ("autoscaling/v2beta2", "HorizontalPodAutoscaler", "horizontalpodautoscalers", "1.26"),
        ("scheduling.k8s.io/v1beta1", "PriorityClass", "priorityclasses", "1.22"),
        ("storage.k8s.io/v1beta1", "CSIStorageCapacity", "csistoragecapacities", "1.27"),
        ("events.k8s.io/v1beta1", "Event", "events", "1.25"),
        ("discovery.k8s.io/v1beta1", "EndpointSlice", "endpointslices", "1.25"),
        ("settings.k8s.io/v1alpha1", "PodPreset", "podpresets", "1.20"),
        ("node.k8s.io/v1beta1", "RuntimeClass", "runtimeclasses", "1.25"),
        ("coordination.k8s.io/v1beta1", "Lease", "leases", "1.22"),
        ("certificates.k8s.io/v1beta1", "CertificateSigningRequest", "certificatesigningrequests", "1.22"),
        ("flowcontrol.apiserver.k8s.io/v1beta3", "FlowSchema", "flowschemas", "1.32"),
        ("authentication.k8s.io/v1beta1", "TokenReview", "tokenreviews", "1.22"),
        ("authorization.k8s.io/v1beta1", "SubjectAccessReview", "subjectaccessreviews", "1.22"),
    ],
)  # fmt: skip
def test_a_removed_version_is_mapped_with_its_removal_release(
    api_version: str, kind: str, name: str, removed_in: str
) -> None:
    type_ = found(api_version, kind)
    assert type_ is not None
    assert type_.resource == resource(api_version, name)
    assert type_.removed_in == removed_in


@pytest.mark.parametrize(
    ("api_version", "name", "subresource", "kind"),
    [
        ("v1", "pods", "status", "v1 Pod"),
        ("v1", "pods", "exec", "v1 PodExecOptions"),
        ("v1", "pods", "attach", "v1 PodAttachOptions"),
        ("v1", "pods", "binding", "v1 Binding"),
        ("v1", "pods", "eviction", "policy/v1 Eviction"),
        ("v1", "pods", "ephemeralcontainers", "v1 Pod"),
        ("v1", "pods", "resize", "v1 Pod"),
        ("v1", "serviceaccounts", "token", "authentication.k8s.io/v1 TokenRequest"),
        ("v1", "namespaces", "finalize", "v1 Namespace"),
        ("v1", "nodes", "proxy", "v1 NodeProxyOptions"),
        ("v1", "replicationcontrollers", "scale", "autoscaling/v1 Scale"),
        ("apps/v1", "deployments", "scale", "autoscaling/v1 Scale"),
        ("extensions/v1beta1", "deployments", "scale", "extensions/v1beta1 Scale"),
        ("extensions/v1beta1", "deployments", "rollback", "extensions/v1beta1 DeploymentRollback"),
        ("certificates.k8s.io/v1", "certificatesigningrequests", "approval",
         "certificates.k8s.io/v1 CertificateSigningRequest"),
    ],
)  # fmt: skip
def test_a_subresource_takes_a_kind_of_its_own(
    api_version: str, name: str, subresource: str, kind: str
) -> None:
    type_ = built_in_resources().for_resource(resource(api_version, name), subresource)
    assert type_ is not None
    assert f"{type_.kind.api_version} {type_.kind.kind}" == kind
    assert type_.subresource == subresource


def test_a_subresource_has_the_scope_of_its_collection() -> None:
    known = built_in_resources()
    for type_ in known:
        parent = known.for_resource(type_.resource)
        assert parent is not None
        assert parent.namespaced == type_.namespaced


def test_the_kind_of_a_subresource_is_not_the_kind_of_a_collection() -> None:
    assert found("policy/v1", "Eviction") is None
    assert found("autoscaling/v1", "Scale") is None


def test_an_unregistered_kind_is_unknown() -> None:
    assert found("v1", "Deployment") is None
    assert built_in_resources().for_resource(resource("v1", "deployments")) is None
    assert built_in_resources().for_resource(resource("v1", "pods"), "scale") is None


def test_kinds_and_collections_correspond_one_to_one() -> None:
    collections = [type_ for type_ in built_in_resources() if not type_.subresource]
    assert len({type_.kind for type_ in collections}) == len(collections)
    assert len({type_.resource for type_ in collections}) == len(collections)


def test_versions_come_with_the_preferred_one_first() -> None:
    assert built_in_resources().versions("apps", "deployments") == ("v1", "v1beta2", "v1beta1")
    autoscalers = built_in_resources().versions("autoscaling", "horizontalpodautoscalers")
    assert autoscalers == ("v2", "v1", "v2beta2", "v2beta1")
    assert built_in_resources().versions("apps", "pods") == ()


def test_the_core_group_is_registered_first() -> None:
    groups = [
        group for group, _ in itertools.groupby(built_in_resources(), lambda type_: type_.resource.group)
    ]
    assert groups[0] == ""
    assert len(groups) == len(set(groups))


def test_the_catalogue_is_read_once() -> None:
    assert built_in_resources() is built_in_resources()


def test_the_first_of_two_types_for_a_collection_wins() -> None:
    first = ResourceType(
        resource=resource("v1", "things"), kind=GroupVersionKind("", "v1", "A"), namespaced=True
    )
    second = ResourceType(
        resource=resource("v1", "things"), kind=GroupVersionKind("", "v1", "B"), namespaced=False
    )
    known = ApiResources([first, second])
    assert known.for_resource(resource("v1", "things")) == first
    assert known.for_kind(second.kind) is None
