"""Which controllers there are, and in which order they run."""

from __future__ import annotations

import itertools

import pytest

from pratique.admission.controllers import BOTH, MUTATE, VALIDATE, Phase
from pratique.apimachinery.errors import ConfigurationError
from pratique.configuration.settings import ChainSettings
from pratique.hosting.catalogue import CHAIN_ORDER, Catalogue, load_catalogue

CURRENT = """
    AlwaysAdmit NamespaceAutoProvision NamespaceLifecycle NamespaceExists
    LimitPodHardAntiAffinityTopology LimitRanger ServiceAccount NodeRestriction
    TaintNodesByCondition AlwaysPullImages ImagePolicyWebhook PodSecurity PodNodeSelector Priority
    DefaultTolerationSeconds PodTolerationRestriction EventRateLimit ExtendedResourceToleration
    DefaultStorageClass StorageObjectInUseProtection PodGroupProtection
    OwnerReferencesPermissionEnforcement PersistentVolumeClaimResize RuntimeClass
    CertificateApproval CertificateSigning ClusterTrustBundleAttest CertificateSubjectRestriction
    DefaultIngressClass DenyServiceExternalIPs PodTopologyLabels
    NodeDeclaredFeatureValidator PodResizeValidator MutatingAdmissionPolicy
    MutatingAdmissionWebhook ValidatingAdmissionPolicy ValidatingAdmissionWebhook ResourceQuota
    AlwaysDeny
"""

OF_1_10 = """
    AlwaysAdmit NamespaceAutoProvision NamespaceLifecycle NamespaceExists SecurityContextDeny
    LimitPodHardAntiAffinityTopology InitialResources PodPreset LimitRanger ServiceAccount
    NodeRestriction AlwaysPullImages ImagePolicyWebhook PodSecurityPolicy PodNodeSelector Priority
    DefaultTolerationSeconds PodTolerationRestriction DenyEscalatingExec DenyExecOnPrivileged
    EventRateLimit ExtendedResourceToleration PersistentVolumeLabel DefaultStorageClass
    StorageObjectInUseProtection OwnerReferencesPermissionEnforcement PersistentVolumeClaimResize
    MutatingAdmissionWebhook Initializers ValidatingAdmissionWebhook ResourceQuota AlwaysDeny
"""


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return load_catalogue()


@pytest.mark.parametrize("release", [CURRENT, OF_1_10], ids=["current", "1.10"])
def test_the_order_is_that_of_each_release(release: str) -> None:
    places = [CHAIN_ORDER.index(name) for name in release.split()]
    assert all(before < after for before, after in itertools.pairwise(places))


def test_the_order_names_what_these_releases_and_the_first_one_had() -> None:
    assert set(CHAIN_ORDER) == {*CURRENT.split(), *OF_1_10.split(), "ResourceDefaults"}
    assert len(CHAIN_ORDER) == len(set(CHAIN_ORDER))
    assert CHAIN_ORDER.index("ResourceDefaults") + 1 == CHAIN_ORDER.index("LimitRanger")


def test_the_catalogue_is_in_chain_order(catalogue: Catalogue) -> None:
    names = [controller.name for controller in catalogue]
    assert names == [name for name in CHAIN_ORDER if name in names]


@pytest.mark.parametrize(
    ("name", "phases", "default", "hosted"),
    [
        ("AlwaysAdmit", BOTH, False, True),
        ("AlwaysDeny", BOTH, False, True),
        ("AlwaysPullImages", BOTH, False, True),
        ("DefaultTolerationSeconds", MUTATE, True, True),
        ("LimitPodHardAntiAffinityTopology", VALIDATE, False, True),
        ("NamespaceLifecycle", MUTATE, True, True),
        ("MutatingAdmissionWebhook", MUTATE, True, False),
        ("ValidatingAdmissionWebhook", VALIDATE, True, False),
    ],
)
def test_a_controller_is_what_it_is_in_kubernetes(
    catalogue: Catalogue, name: str, phases: frozenset[Phase], *, default: bool, hosted: bool
) -> None:
    controller = catalogue.get(name)
    assert controller is not None
    assert (controller.phases, controller.default, controller.hosted) == (phases, default, hosted)


def test_every_controller_of_pratique_is_trusted_and_described(catalogue: Catalogue) -> None:
    assert all(controller.trusted and controller.summary.endswith(".") for controller in catalogue)


NOT_WITHOUT_SETTINGS = {"EventRateLimit", "ImagePolicyWebhook"}
"""What an API server does not start with either, unless it is told more."""


def test_every_other_controller_works_with_its_default_settings(catalogue: Catalogue) -> None:
    others = [controller for controller in catalogue if controller.name not in NOT_WITHOUT_SETTINGS]
    configured = catalogue.configure(others, {})
    assert [controller.controller for controller in configured] == others


@pytest.mark.parametrize("name", sorted(NOT_WITHOUT_SETTINGS))
def test_some_controllers_need_settings(catalogue: Catalogue, name: str) -> None:
    controller = catalogue.get(name)
    assert controller is not None
    with pytest.raises(ConfigurationError, match=f'couldn\'t init admission plugin "{name}": '):
        catalogue.configure([controller], {})


@pytest.mark.parametrize("name", ["Nobody", "PodGroupWorkloadExists", "JobValidation"])
def test_an_unknown_name_has_no_controller(catalogue: Catalogue, name: str) -> None:
    assert catalogue.get(name) is None
    with pytest.raises(ConfigurationError, match=f'^enable-admission-plugins plugin "{name}" is unknown'):
        catalogue.select(ChainSettings(enable_admission_plugins=(name,)))
    with pytest.raises(ConfigurationError, match=f'^disable-admission-plugins plugin "{name}" is unknown'):
        catalogue.select(ChainSettings(disable_admission_plugins=(name,)))
