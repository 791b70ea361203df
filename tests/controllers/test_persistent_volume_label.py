"""PersistentVolumeLabel."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import msgspec
import pytest
from hypothesis import given

from pratique.admission.controllers import Controller
from pratique.apimachinery.errors import ConfigurationError
from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.controllers.persistent_volume_label import CONTROLLER, build
from pratique.pods.volumes import VolumeLabeler, VolumeLabelError
from support import vector_cases
from support.admissions import admit, review_of
from support.expectations import check
from support.mutation_invariants import admitted_twice
from support.storage_reviews import volume_review
from support.strategies.storage import volumes

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
OLD_ZONE, OLD_REGION = "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"


@dataclasses.dataclass(frozen=True)
class Cloud:
    """A cloud whose disks all have the same labels, or that fails."""

    found: Mapping[str, str] = dataclasses.field(default_factory=dict)
    error: str = ""

    async def labels(self, volume: JSONObject) -> Mapping[str, str]:
        assert volume["spec"]
        if self.error:
            raise VolumeLabelError(self.error)
        return self.found


def asking(labeler: VolumeLabeler | None) -> Controller:
    return msgspec.structs.replace(CONTROLLER, build=lambda given: build(given, labeler))


@pytest.mark.parametrize("case", vector_cases.plugin("PersistentVolumeLabel"), ids=vector_cases.source)
def test_it_answers_as_kubernetes_does(case: JSONObject) -> None:
    cloud = case["external"]["pvLabeler"]
    labeler = Cloud(cloud.get("labels") or {}, cloud.get("error", ""))
    check(admit(asking(labeler), review_of(case["request"])), case["expected"])


def volume(source: str = "awsElasticBlockStore", disk: str = "vol-1", **metadata: JSON) -> JSONObject:
    names = dict.fromkeys(("volumeID", "pdName", "diskName", "volumePath"), disk)
    return {"kind": "PersistentVolume", "metadata": metadata, "spec": {source: names}}


def required(*terms: dict[str, list[str]]) -> JSONObject:
    expressions = (
        [{"key": key, "operator": "In", "values": values} for key, values in term.items()] for term in terms
    )
    return {
        "required": {
            "nodeSelectorTerms": [{"matchExpressions": requirements} for requirements in expressions]
        }
    }


def listing(labels: JSONObject, source: str = "awsElasticBlockStore") -> JSONObject:
    return {"volumes": [{"source": source, "id": "*", "labels": labels}]}


def test_labels_and_affinity_come_from_the_list() -> None:
    found = admit(CONTROLLER, volume_review(volume()), listing({ZONE: "b__a", REGION: "eu"}))
    assert found.operations == (
        {"op": "add", "path": "/metadata/labels", "value": {REGION: "eu", ZONE: "b__a"}},
        {"op": "add", "path": "/spec/nodeAffinity", "value": required({REGION: ["eu"], ZONE: ["a", "b"]})},
    )


def test_labels_written_by_the_user_are_overwritten() -> None:
    found = admit(CONTROLLER, volume_review(volume(labels={ZONE: "mine", "a": "b"})), listing({ZONE: "z"}))
    assert found.operations[0] == {
        "op": "replace",
        "path": "/metadata/labels/topology.kubernetes.io~1zone",
        "value": "z",
    }
    assert found.object["metadata"]["labels"] == {ZONE: "z", "a": "b"}


@pytest.mark.parametrize(
    ("labels", "kept"),
    [
        ({ZONE: "z", REGION: "r"}, True),
        ({OLD_ZONE: "z", OLD_REGION: "r"}, True),
        ({OLD_ZONE: "z", OLD_REGION: "r", ZONE: "z"}, True),
        ({ZONE: "z", OLD_REGION: "r"}, False),
        ({ZONE: "z"}, False),
        ({}, False),
    ],
)
def test_labels_written_by_a_provisioner_are_trusted(labels: JSONObject, *, kept: bool) -> None:
    reviewed = volume(labels=labels, annotations={"pv.kubernetes.io/provisioned-by": ""})
    found = admit(CONTROLLER, volume_review(reviewed), listing({"cloud": "c"}))
    assert ("cloud" not in found.object["metadata"]["labels"]) is kept
    assert found.object["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]


def test_a_provisioner_is_trusted_for_every_kind_of_volume() -> None:
    annotations = {"pv.kubernetes.io/provisioned-by": "x"}
    reviewed = volume("csi", labels={ZONE: "z__y", REGION: "r"}, annotations=annotations)
    found = admit(CONTROLLER, volume_review(reviewed))
    assert found.object["spec"]["nodeAffinity"] == required({REGION: ["r"], ZONE: ["y", "z"]})


def test_every_node_selector_term_requires_the_labels() -> None:
    reviewed = volume()
    reviewed["spec"]["nodeAffinity"] = {
        "required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "c"}]}, {}]}
    }
    found = admit(CONTROLLER, volume_review(reviewed), listing({"a": "1", "b": "2"}))
    path = "/spec/nodeAffinity/required/nodeSelectorTerms"
    a, b = required({"a": ["1"], "b": ["2"]})["required"]["nodeSelectorTerms"][0]["matchExpressions"]
    assert found.operations[1:] == (
        {"op": "add", "path": f"{path}/0/matchExpressions/1", "value": a},
        {"op": "add", "path": f"{path}/0/matchExpressions/2", "value": b},
        {"op": "add", "path": f"{path}/1/matchExpressions", "value": [a, b]},
    )


@pytest.mark.parametrize("keys", [["a"], ["c", "b"]])
def test_terms_stay_as_they_are_if_one_requires_any_of_the_labels(keys: list[str]) -> None:
    reviewed = volume()
    affinity = required({"c": ["3"]}, {key: ["9"] for key in keys})
    reviewed["spec"]["nodeAffinity"] = affinity
    found = admit(CONTROLLER, volume_review(reviewed), listing({"a": "1", "b": "2"}))
    assert found.object["spec"]["nodeAffinity"] == affinity
    assert found.object["metadata"]["labels"] == {"a": "1", "b": "2"}


@pytest.mark.parametrize("affinity", [None, {}, {"required": None}, {"required": {"nodeSelectorTerms": []}}])
def test_an_affinity_without_terms_gets_one(affinity: JSON) -> None:
    reviewed = volume()
    reviewed["spec"]["nodeAffinity"] = affinity
    found = admit(CONTROLLER, volume_review(reviewed), listing({"a": "1"}))
    assert found.object["spec"]["nodeAffinity"] == required({"a": ["1"]})


def test_older_releases_set_only_labels() -> None:
    found = admit(CONTROLLER, volume_review(volume()), {**listing({"a": "1"}), "nodeAffinity": False})
    assert found.object == volume(labels={"a": "1"})


TITLES = [
    ("awsElasticBlockStore", "AWS EBS volume vol-1", "AWS cloud provider for EBS"),
    ("gcePersistentDisk", "GCE PD volume vol-1", "GCE cloud provider for PD"),
    ("azureDisk", "AzureDisk volume vol-1", "Azure cloud provider for AzureDisk"),
    ("cinder", "Cinder volume vol-1", "OpenStack cloud provider for Cinder disk"),
    ("vsphereVolume", "vSphere Volume vol-1", "vSphere cloud provider"),
]


def refusal(controller: Controller, reviewed: JSONObject, configuration: JSON = None) -> str:
    status = admit(controller, volume_review(reviewed), configuration).status
    assert status is not None
    assert (status.code, status.reason) == (403, "Forbidden")
    return status.message.removeprefix('persistentvolumes "disk" is forbidden: ')


@pytest.mark.parametrize(("source", "title", "provider"), TITLES)
def test_a_volume_with_unknown_labels_is_denied(source: str, title: str, provider: str) -> None:
    reviewed = volume(source)
    assert (
        refusal(asking(Cloud(error="invalid volume")), reviewed) == f"error querying {title}: invalid volume"
    )
    assert refusal(CONTROLLER, reviewed) == f"error querying {title}: unable to build {provider}"
    unlisted = f"error querying {title}: it is not in the list of volumes"
    assert refusal(CONTROLLER, reviewed, {"volumes": []}) == unlisted


def test_malformed_zones_are_rejected() -> None:
    text = refusal(asking(Cloud({ZONE: "a____b"})), volume())
    assert text == "failed to convert label string for Zone: a____b to a Set"


@pytest.mark.parametrize(
    "source", ["awsElasticBlockStore", "gcePersistentDisk", "azureDisk", "cinder", "hostPath", "csi", "nfs"]
)
def test_placeholders_and_other_kinds_of_disks_are_not_looked_up(source: str) -> None:
    found = admit(CONTROLLER, volume_review(volume(source, "placeholder-for-provisioning")))
    assert (found.allowed, found.operations) == (True, ())


@pytest.mark.parametrize("reviewed", [{"kind": "Service", "spec": {"cinder": {}}}, None, []])
def test_objects_other_than_volumes_are_ignored(reviewed: JSON) -> None:
    assert admit(CONTROLLER, volume_review(reviewed)).allowed


def test_updates_are_ignored() -> None:
    assert admit(CONTROLLER, volume_review(volume(), operation="UPDATE")).operations == ()


@pytest.mark.parametrize("terms", ["x", 5, {"a": 1}])
def test_terms_that_are_not_a_list_are_a_bad_request(terms: JSON) -> None:
    reviewed = volume()
    reviewed["spec"]["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
    status = admit(CONTROLLER, volume_review(reviewed), listing({"a": "1"})).status
    assert status is not None
    assert status.code == 400
    assert status.message.startswith("spec.nodeAffinity.required.nodeSelectorTerms: must be a list")


@pytest.mark.parametrize(
    ("configuration", "text"),
    [
        ({"volumes": [], "labeler": "acme"}, "labeler: set either labeler or volumes, not both"),
        ({"labeler": "acme"}, 'labeler "acme" is unknown'),
        (
            {"volumes": [{"source": "ebs", "id": "1", "labels": {}}]},
            r"volumes\[0\].source: Unsupported value",
        ),
        ({"volumes": [{"source": "cinder", "disk": "1"}]}, r'unknown field "volumes\[0\].disk"'),
        ({"zones": {}}, 'unknown field "zones"; known fields: volumes, labeler, nodeAffinity'),
    ],
)
def test_invalid_settings_are_rejected(configuration: JSON, text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        admit(CONTROLLER, volume_review(volume()), configuration)


def test_the_catalogue_shows_that_kubernetes_removed_it() -> None:
    assert not CONTROLLER.default
    assert CONTROLLER.removed_in == "1.31"
    assert CONTROLLER.replaced_by


@given(volumes())
def test_a_second_pass_changes_nothing(reviewed: JSONObject) -> None:
    cloud = Cloud({ZONE: "a__b", REGION: "r", "a": "1"})
    assert admitted_twice(asking(cloud), volume_review(reviewed)).allowed


def test_labels_that_a_second_pass_would_trust_are_required_at_once() -> None:
    reviewed = volume(annotations={"pv.kubernetes.io/provisioned-by": "x"})
    reviewed["spec"]["nodeAffinity"] = required({"a": ["9"]})
    cloud = Cloud({ZONE: "z", REGION: "r", "a": "1"})
    found = admitted_twice(asking(cloud), volume_review(reviewed))
    assert found.object["spec"]["nodeAffinity"] == required({"a": ["9"], REGION: ["r"], ZONE: ["z"]})
