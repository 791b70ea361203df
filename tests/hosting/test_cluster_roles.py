"""What services may read of a live cluster follows from what their controllers declare, and from what policies ask."""

from __future__ import annotations

from pathlib import Path

import pytest

from pratique.cluster.api_resources import built_in_resources
from pratique.configuration.loading import Configurations, load_configurations
from pratique.configuration.settings import ChainSettings
from pratique.hosting.catalogue import load_catalogue
from pratique.hosting.cluster_roles import (
    PHASES_OF_SERVICES,
    FollowedResources,
    creates_namespaces,
    known_resources,
    policy_rules,
)

POLICY = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: p}
spec:
  paramKind: {apiVersion: %s, kind: %s}
  matchConstraints:
    resourceRules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [pods]}]
  validations: [{expression: '%s'}]
"""
LIMITS = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "limits.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Cluster",
        "names": {"plural": "limits", "kind": "Limit"},
        "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {}}}],
    },
}
ROLES = ("clusterrolebindings", "clusterroles", "rolebindings", "roles")
CATALOGUE = load_catalogue()


def followed(
    service: str, *names: str, configurations: Configurations | None = None, **groups: object
) -> FollowedResources:
    chain = CATALOGUE.select(ChainSettings(admission_control=names))
    known = known_resources([LIMITS]) if "crds" in groups else built_in_resources()
    return FollowedResources.of_service(service, chain, configurations or Configurations(), known)


def policies(folder: Path, kind: str, expression: str = "true") -> Configurations:
    (folder / "policy.yaml").write_text(POLICY % (*kind.split(" "), expression))
    return load_configurations([folder])


@pytest.mark.parametrize("service", PHASES_OF_SERVICES)
def test_a_chain_that_looks_nothing_up_reads_only_which_kinds_there_are(service: str) -> None:
    found = dict(followed(service, "AlwaysPullImages").resources)
    assert found.pop("apiextensions.k8s.io") == ("customresourcedefinitions",)
    assert found == ({"": ("namespaces",)} if service == "frontdoor" else {})


def test_each_service_reads_what_its_own_controllers_look_up() -> None:
    chain = ("DefaultStorageClass", "PersistentVolumeClaimResize")
    assert followed("mutator", *chain).resources["storage.k8s.io"] == ("storageclasses",)
    assert followed("validator", *chain).resources[""] == ("persistentvolumes",)
    assert "storage.k8s.io" not in followed("frontdoor", *chain).resources


@pytest.mark.parametrize("name", [controller.name for controller in CATALOGUE])
def test_whatever_a_controller_declares_is_readable_in_one_of_the_services(name: str) -> None:
    controller = CATALOGUE.get(name)
    assert controller is not None
    found = {
        resource
        for service in PHASES_OF_SERVICES
        for resources in followed(service, name).resources.values()
        for resource in resources
    }
    assert found >= {*controller.looks_up, *controller.may_look_up}


def test_parameters_of_policies_are_read(tmp_path: Path) -> None:
    given = policies(tmp_path, "v1 ConfigMap")
    found = followed("validator", "ValidatingAdmissionPolicy", configurations=given)
    assert found.resources[""] == ("configmaps", "namespaces")
    assert (
        "configmaps" not in followed("mutator", "ValidatingAdmissionPolicy", configurations=given).resources
    )


def test_parameters_of_an_unknown_kind_are_named_and_known_ones_are_read(tmp_path: Path) -> None:
    given = policies(tmp_path, "example.com/v1 Limit")
    unknown = followed("validator", "ValidatingAdmissionPolicy", configurations=given)
    assert unknown.unknown_parameters == ("Limit of example.com/v1",)
    known = followed("validator", "ValidatingAdmissionPolicy", configurations=given, crds=True)
    assert (known.resources["example.com"], known.unknown_parameters) == (("limits",), ())


def test_roles_are_read_where_an_expression_asks_the_authorizer(tmp_path: Path) -> None:
    group = "rbac.authorization.k8s.io"
    plain = policies(tmp_path, "v1 ConfigMap")
    assert group not in followed("validator", "ValidatingAdmissionPolicy", configurations=plain).resources
    asking = policies(tmp_path, "v1 ConfigMap", 'authorizer.path("/x").check("get").allowed()')
    found = followed("validator", "ValidatingAdmissionPolicy", configurations=asking)
    assert found.resources[group] == ROLES


@pytest.mark.parametrize("service", PHASES_OF_SERVICES)
def test_rules_only_list_and_watch_but_for_the_namespaces_that_are_made(service: str) -> None:
    chain = CATALOGUE.select(ChainSettings(admission_control=("NamespaceAutoProvision", "ResourceQuota")))
    provisions = creates_namespaces(service, chain)
    assert provisions == (service == "mutator")
    identity, *rules = policy_rules(
        followed(service, "NamespaceAutoProvision", "ResourceQuota"), provisions=provisions
    )
    assert (identity["resourceNames"], identity["verbs"]) == (["kube-system"], ["get"])
    made = [rule for rule in rules if rule["verbs"] != ["list", "watch"]]
    created = {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["create"]}
    assert made == ([created] if provisions else [])
