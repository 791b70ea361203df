"""Strategies: claims and volumes as a user may write them."""

from __future__ import annotations

from hypothesis import strategies as st

from pratique.apimachinery.json_values import JSONObject
from support.strategies.pods import QUANTITIES, optional

NAMES = st.sampled_from(["a", "data", "disk-1"])
FINALIZERS = st.lists(st.sampled_from(["kubernetes.io/pvc-protection", "kubernetes.io/pv-protection", "x/y"]))
LABEL_KEYS = st.sampled_from(
    [
        "a",
        "topology.kubernetes.io/zone",
        "topology.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone",
    ]
)
CLASS_NAMES = st.sampled_from(["", "gold", "silver"])
DISKS = ["awsElasticBlockStore", "gcePersistentDisk", "azureDisk", "cinder", "vsphereVolume", "hostPath"]


def metadata() -> st.SearchStrategy[JSONObject]:
    """Names, labels and annotations that controllers of storage look at."""
    annotations = optional(
        {},
        **{
            "volume.beta.kubernetes.io/storage-class": CLASS_NAMES,
            "pv.kubernetes.io/provisioned-by": NAMES,
        },
    )
    labels = st.dictionaries(LABEL_KEYS, st.sampled_from(["a", "b", "a__b"]), max_size=4)
    return optional({"name": NAMES}, finalizers=FINALIZERS, annotations=annotations, labels=labels)


def claims() -> st.SearchStrategy[JSONObject]:
    """Claims of storage."""
    requests = optional({}, requests=optional({}, storage=QUANTITIES))
    spec = optional(
        {}, storageClassName=st.none() | CLASS_NAMES, resources=requests, volumeName=st.just("volume")
    )
    return optional(
        {"apiVersion": st.just("v1"), "kind": st.just("PersistentVolumeClaim"), "metadata": metadata()},
        spec=spec,
        status=optional({}, phase=st.sampled_from(["Bound", "Pending"])),
    )


def terms() -> st.SearchStrategy[JSONObject]:
    """Terms of a node affinity."""
    expression = optional({"key": LABEL_KEYS}, operator=st.just("In"), values=st.lists(NAMES, max_size=2))
    return optional({}, matchExpressions=st.lists(expression, max_size=2))


def volumes() -> st.SearchStrategy[JSONObject]:
    """Volumes on disks of any kind."""
    disk = st.fixed_dictionaries(dict.fromkeys(("volumeID", "pdName", "diskName", "volumePath"), NAMES))
    selector = optional({}, nodeSelectorTerms=st.lists(terms(), max_size=3))
    affinity = st.fixed_dictionaries({}, optional={"required": selector})
    spec = st.sampled_from(DISKS).flatmap(lambda source: optional({source: disk}, nodeAffinity=affinity))
    return optional(
        {"apiVersion": st.just("v1"), "kind": st.just("PersistentVolume"), "metadata": metadata()}, spec=spec
    )
