"""Chains that follow an older Kubernetes release."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from pratique.admission.controllers import BOTH
from pratique.admission.reviews import Deadline
from pratique.apimachinery.errors import InputError
from pratique.apimachinery.json_values import JSONObject
from pratique.cluster.store import ObjectStore
from pratique.configuration.admission_configuration import load_plugin_configurations
from pratique.configuration.settings import (
    CURRENT_RELEASE,
    OLDEST_RELEASE,
    ChainSettings,
    Release,
    deprecation_notices,
    merge_settings,
    read_release,
    release_settings,
)
from pratique.hosting.catalogue import load_catalogue
from pratique_frontdoor.engines.engine import ChainSources
from pratique_frontdoor.engines.local import LocalEngine
from pratique_frontdoor.http.codecs import decode_review

EVERY = [Release(1, minor) for minor in range(CURRENT_RELEASE.minor + 1)]


@pytest.mark.parametrize("text", ["1.10", "v1.10", "1.10.13"])
def test_a_release_is_read(text: str) -> None:
    assert read_release(text) == Release(1, 10)


@pytest.mark.parametrize(
    "text", ["", "1", "1.", "1.010", "1.38", "1.999", "2.0", "0.21", "1.10 ", "\u0661.\u0661\u0660", "latest"]
)
def test_an_invalid_release_is_refused_with_the_supported_range(text: str) -> None:
    with pytest.raises(InputError, match=f"choose one from {OLDEST_RELEASE} to {CURRENT_RELEASE}"):
        read_release(text)


@pytest.mark.parametrize("release", EVERY, ids=str)
def test_every_controller_accepts_the_settings_of_each_release(release: Release) -> None:
    catalogue = load_catalogue()
    settings = release_settings(release)
    controllers = [controller for controller in catalogue if controller.name in settings]
    assert {controller.name for controller in controllers} == settings.keys()

    async def close_handlers() -> None:
        for controller in catalogue.configure(controllers, settings):
            await controller.handlers.close()

    asyncio.run(close_handlers())


def test_the_current_release_changes_no_settings() -> None:
    assert release_settings(None) == release_settings(CURRENT_RELEASE) == {}


@pytest.mark.parametrize(
    ("plugin", "setting", "old", "last"),
    [
        ("DefaultStorageClass", "refuseSeveralDefaults", True, "1.25"),
        ("DefaultTolerationSeconds", "alpha-taints", True, "1.8"),
        ("DenyEscalatingExec", "checkHostNetwork", False, "1.9"),
        ("LimitRanger", "podUpdates", True, "1.10"),
        ("NodeDeclaredFeatureValidator", "featureGates", {"NodeDeclaredFeatures": False}, "1.35"),
        ("OwnerReferencesPermissionEnforcement", "checkCreations", True, "1.10"),
        ("PersistentVolumeClaimResize", "checkVolumePlugin", True, "1.11"),
        ("PersistentVolumeLabel", "nodeAffinity", False, "1.9"),
        ("PodPreset", "initContainers", False, "1.13"),
        ("PodSecurityPolicy", "release", "1.10", "1.10"),
        ("PodTolerationRestriction", "exact", True, "1.16"),
        ("PodTolerationRestriction", "emptyOverrides", False, "1.11"),
        ("PodTopologyLabels", "featureGates", {"PodTopologyLabelsAdmission": False}, "1.34"),
        ("Priority", "release", "1.10", "1.10"),
        ("Priority", "systemClassesOnlyInKubeSystem", True, "1.16"),
        ("ServiceAccount", "boundServiceAccountTokenVolume", False, "1.20"),
    ],
)
def test_a_former_behaviour_ends_with_its_last_release(
    plugin: str, setting: str, old: object, last: str
) -> None:
    ends = read_release(last)
    assert release_settings(ends)[plugin][setting] == old
    assert setting not in release_settings(Release(1, ends.minor + 1)).get(plugin, {})


def test_a_file_or_flag_overrides_the_release(tmp_path: Path) -> None:
    file = tmp_path / "admission.yaml"
    file.write_text(
        json.dumps(
            {
                "apiVersion": "apiserver.config.k8s.io/v1",
                "kind": "AdmissionConfiguration",
                "plugins": [
                    {"name": "DefaultStorageClass", "configuration": {"refuseSeveralDefaults": False}},
                    {"name": "PodTolerationRestriction", "configuration": {"emptyOverrides": True}},
                ],
            }
        )
    )
    flags = {"DefaultTolerationSeconds": {"default-not-ready-toleration-seconds": 7}}
    chain = ChainSettings(release=Release(1, 8), admission_control_config_file=file, plugin_flags=flags)
    found = load_plugin_configurations(chain)
    assert found["DefaultStorageClass"] == {"refuseSeveralDefaults": False}
    assert found["PodTolerationRestriction"] == {"exact": True, "emptyOverrides": True}
    assert found["DefaultTolerationSeconds"] == {"alpha-taints": True, **flags["DefaultTolerationSeconds"]}


def test_feature_gates_are_merged_one_by_one() -> None:
    assert merge_settings({"featureGates": {"A": 1, "B": 2}}, {"featureGates": {"B": 3}}) == {
        "featureGates": {"A": 1, "B": 3}
    }


def claim() -> JSONObject:
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "1",
            "operation": "CREATE",
            "kind": {"group": "", "version": "v1", "kind": "PersistentVolumeClaim"},
            "resource": {"group": "", "version": "v1", "resource": "persistentvolumeclaims"},
            "name": "data",
            "namespace": "shop",
            "object": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": {"name": "data", "namespace": "shop"},
                "spec": {"resources": {"requests": {"storage": "1Gi"}}},
            },
        },
    }


def default_class(name: str) -> JSONObject:
    marks = {"storageclass.kubernetes.io/is-default-class": "true"}
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name, "annotations": marks},
        "provisioner": "example.com/disks",
    }


@pytest.mark.parametrize(
    ("release", "allowed"), [("1.10", False), ("1.25", False), ("1.26", True), (None, True)]
)
def test_several_default_classes_are_refused_as_in_the_release(
    release: str | None,
    allowed: bool,  # noqa: FBT001 - a column of the table
) -> None:
    async def decide() -> bool:
        store = ObjectStore([default_class("a"), default_class("b")])
        chain = ChainSettings(
            admission_control=("DefaultStorageClass",), release=read_release(release) if release else None
        )
        engine = LocalEngine(chain, store)
        review = decode_review(json.dumps(claim()).encode(), store).review
        try:
            return (await engine.decide(review, BOTH, Deadline.after(30))).allowed
        finally:
            await engine.close()

    assert asyncio.run(decide()) is allowed


DEPRECATED = (
    "{} admission controller is deprecated."
    " Please remove this controller from your configuration files and scripts."
)
REMOVED = "SecurityContextDeny: Kubernetes removed this admission controller in 1.30; use PodSecurity"


@pytest.mark.parametrize(
    ("names", "release", "told"),
    [
        (
            ("AlwaysAdmit", "AlwaysDeny"),
            None,
            [DEPRECATED.format("AlwaysAdmit"), DEPRECATED.format("AlwaysDeny")],
        ),
        (("AlwaysAdmit",), "1.13", [DEPRECATED.format("AlwaysAdmit")]),
        (("AlwaysAdmit",), "1.12", []),
        (("SecurityContextDeny",), None, [REMOVED]),
        (("SecurityContextDeny",), "1.30", [REMOVED]),
        (("SecurityContextDeny",), "1.29", [DEPRECATED.format("SecurityContextDeny")]),
        (("SecurityContextDeny",), "1.26", []),
        (("LimitRanger",), None, []),
    ],
)
def test_removed_and_deprecated_controllers_are_reported(
    names: tuple[str, ...], release: str | None, told: list[str]
) -> None:
    selected = ChainSources.read(ChainSettings(admission_control=names)).selected
    assert list(deprecation_notices(selected, read_release(release) if release else None)) == told
