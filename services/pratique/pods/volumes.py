"""PersistentVolumeClaims, the CSI drivers of volumes, and the labels of cloud disks."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import msgspec

from pratique.apimachinery import statuses
from pratique.apimachinery.errors import ConfigurationError, PratiqueError, RefusalError
from pratique.apimachinery.field_errors import (
    ROOT,
    FieldError,
    FieldPath,
    duplicate,
    invalid,
    join,
    not_supported,
    required,
)
from pratique.apimachinery.json_values import JSON, JSONObject, member
from pratique.apimachinery.names import check_label_value, check_qualified_name
from pratique.apimachinery.statuses import go_quoted
from pratique.cluster.store import Cluster

CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
"""The predecessor of ``spec.storageClassName``, which still takes precedence."""


def is_persistent_volume_claim(document: JSON) -> bool:
    """Tell whether an object is a PersistentVolumeClaim; an object without a kind counts as one."""
    return isinstance(document, dict) and document.get("kind", "PersistentVolumeClaim") == (
        "PersistentVolumeClaim"
    )


def storage_class_of(claim: JSON) -> str | None:
    """The StorageClass of a claim; None if it names none, empty if it wants none."""
    annotations = member(claim, "metadata", "annotations")
    if isinstance(annotations, dict) and CLASS_ANNOTATION in annotations:
        return str(annotations[CLASS_ANNOTATION] or "")
    name = member(claim, "spec", "storageClassName")
    return None if name is None else str(name)


_MIGRATED_DRIVERS = {
    "awsElasticBlockStore": "ebs.csi.aws.com",
    "gcePersistentDisk": "pd.csi.storage.gke.io",
    "cinder": "cinder.csi.openstack.org",
    "azureDisk": "disk.csi.azure.com",
    "azureFile": "file.csi.azure.com",
    "vsphereVolume": "csi.vsphere.vmware.com",
    "portworxVolume": "pxd.portworx.com",
}


def driver_of_volume(pod: JSONObject, volume: JSONObject, cluster: Cluster) -> str:
    """The CSI driver of a volume of a Pod; empty if it has none.

    Raises:
        RefusalError: the claim, or the volume that it is bound to, does not exist; 404.
    """
    namespace = str(member(pod, "metadata", "namespace") or "")
    if member(volume, "ephemeral", "volumeClaimTemplate") is not None:
        claim = f"{member(pod, 'metadata', 'name')}-{volume.get('name')}"
        return _driver_of_claim(namespace, claim, cluster)
    if volume.get("persistentVolumeClaim") is not None:
        claim = str(member(volume, "persistentVolumeClaim", "claimName") or "")
        return _driver_of_claim(namespace, claim, cluster)
    return _csi_driver(volume)


def wants_audience(driver: str, audience: str, cluster: Cluster) -> bool:
    """Tell whether a CSI driver requests tokens for an audience.

    Raises:
        RefusalError: there is no such driver; 404.
    """
    found = cluster.get("storage.k8s.io", "csidrivers", driver)
    if found is None:
        raise RefusalError(statuses.not_found("storage.k8s.io", "csidriver", driver))
    requests = member(found, "spec", "tokenRequests")
    wanted = requests if isinstance(requests, list) else ()
    return any((member(request, "audience") or "") == audience for request in wanted)


def _driver_of_claim(namespace: str, name: str, cluster: Cluster) -> str:
    claim = cluster.get("", "persistentvolumeclaims", name, namespace)
    if claim is None:
        raise RefusalError(statuses.not_found("", "persistentvolumeclaim", name))
    bound_to = str(member(claim, "spec", "volumeName") or "")
    if not bound_to:
        return ""
    volume = cluster.get("", "persistentvolumes", bound_to)
    if volume is None:
        raise RefusalError(statuses.not_found("", "persistentvolume", bound_to))
    return _csi_driver(member(volume, "spec"))


def _csi_driver(source: JSON) -> str:
    if member(source, "csi") is not None:
        return str(member(source, "csi", "driver") or "")
    return next(
        (driver for field, driver in _MIGRATED_DRIVERS.items() if member(source, field) is not None), ""
    )


ENTRY_POINT_GROUP = "pratique.pods.volumes"
"""The entry point group in which packages register a VolumeLabeler."""

ZONE_KEYS = ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone")
"""The labels whose value may list several zones."""

_ZONE_DELIMITER = "__"


class VolumeLabelError(PratiqueError):
    """The labels of a volume are unavailable. The user sees the message, so it must not contain secrets."""


@runtime_checkable
class VolumeLabeler(Protocol):
    """Looks up the labels of volumes."""

    async def labels(self, volume: JSONObject) -> Mapping[str, str]:
        """The labels of a PersistentVolume, possibly none. Do not change the volume in place.

        Raises:
            VolumeLabelError: there is no such disk, or the look-up failed.
        """


class Disk(NamedTuple):
    """The disk of a volume."""

    source: str
    """The member of ``spec`` that describes it: ``awsElasticBlockStore``."""
    id: str
    """Its identifier there; empty if it has none."""


class DiskSource(NamedTuple):
    """A kind of disk that labelers support."""

    id_field: str
    """The member that identifies the disk."""
    title: str
    """The name of such disks in messages."""
    provider: str
    """The name of the provider in messages."""


DISK_SOURCES = {
    "awsElasticBlockStore": DiskSource("volumeID", "AWS EBS volume", "AWS cloud provider for EBS"),
    "gcePersistentDisk": DiskSource("pdName", "GCE PD volume", "GCE cloud provider for PD"),
    "azureDisk": DiskSource("diskName", "AzureDisk volume", "Azure cloud provider for AzureDisk"),
    "cinder": DiskSource("volumeID", "Cinder volume", "OpenStack cloud provider for Cinder disk"),
    "vsphereVolume": DiskSource("volumePath", "vSphere Volume", "vSphere cloud provider"),
}
"""The kinds of disks, in the order in which a volume is searched for them."""


def disk_of(volume: JSON) -> Disk | None:
    """The disk of a volume; None if it has no supported disk."""
    for source, (id_field, *_) in DISK_SOURCES.items():
        found = member(volume, "spec", source)
        if found is not None:
            return Disk(source, str(member(found, id_field) or ""))
    return None


class VolumeLabels(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The labels of one disk, or of all disks of a kind."""

    source: str
    """``awsElasticBlockStore``, ``gcePersistentDisk``, ``azureDisk``, ``cinder`` or ``vsphereVolume``."""
    id: str
    """The disk's identifier (``volumeID``, ``pdName``, ``diskName``, ``volumePath``); ``*`` means any disk."""
    labels: dict[str, str]


class ListedVolumes:
    """A labeler with a fixed list of disks. A disk that is not listed does not exist."""

    def __init__(self, entries: Sequence[VolumeLabels]) -> None:
        """Hold the disks of ``entries``.

        Raises:
            ConfigurationError: an entry can never apply, or has invalid labels.
        """
        faults = list(_entry_errors(entries))
        if faults:
            raise ConfigurationError(join(faults))
        self._labels = {Disk(entry.source, entry.id): entry.labels for entry in entries}

    async def labels(self, volume: JSONObject) -> Mapping[str, str]:
        """The labels of the volume's disk, else those of any disk of its kind."""
        disk = disk_of(volume)
        for listed in (disk, Disk(disk.source, "*")) if disk else ():
            if listed in self._labels:
                return self._labels[listed]
        raise VolumeLabelError("it is not in the list of volumes")


def load_labeler(name: str) -> VolumeLabeler:
    """Load the labeler that a package registered under a name.

    Raises:
        ConfigurationError: there is none, there are several, or it is not a labeler.
    """
    from importlib.metadata import entry_points  # noqa: PLC0415 - PersistentVolumeLabel alone asks, and is off

    offered = entry_points(group=ENTRY_POINT_GROUP)
    named = tuple(offered.select(name=name))
    if len(named) != 1:
        raise ConfigurationError(
            _unknown_labeler_text(name, sorted({entry_point.name for entry_point in offered}), len(named))
        )
    try:
        labeler = named[0].load()
    except Exception as error:  # third-party code may raise anything, and the error must name the labeler
        raise ConfigurationError(f"labeler {go_quoted(name)}: {type(error).__name__}: {error}") from error
    if isinstance(labeler, type) or not isinstance(labeler, VolumeLabeler):
        raise ConfigurationError(
            f"labeler {go_quoted(name)}: {named[0].value} has to be an object with a method labels(volume)"
        )
    return labeler


def split_zones(value: str) -> list[str] | None:
    """The zones of a label's value, sorted; None if one of them is empty: ``LabelZonesToSet``."""
    zones = {zone.strip() for zone in value.split(_ZONE_DELIMITER)}
    return None if "" in zones else sorted(zones)


def _unknown_labeler_text(name: str, known: list[str], count: int) -> str:
    if count:
        return f"labeler {go_quoted(name)}: several packages offer one of this name"
    close = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {go_quoted(close[0])}?" if close else f"known: {', '.join(known) or 'none'}"
    return f"labeler {go_quoted(name)} is unknown; {hint}"


def _entry_errors(entries: Sequence[VolumeLabels]) -> Iterator[FieldError]:
    seen: set[Disk] = set()
    for index, entry in enumerate(entries):
        path = ROOT / "volumes" / index
        disk = Disk(entry.source, entry.id)
        if entry.source not in DISK_SOURCES:
            yield not_supported(path / "source", entry.source, DISK_SOURCES)
        if not entry.id:
            yield required(path / "id", 'the name of a disk, or "*" for any')
        elif disk in seen:
            yield duplicate(path / "id", entry.id)
        seen.add(disk)
        yield from _label_errors(entry.labels, path / "labels")


def _label_errors(labels: Mapping[str, str], path: FieldPath) -> Iterator[FieldError]:
    for key, value in labels.items():
        for message in check_qualified_name(key):
            yield invalid(path, key, message)
        for message in check_label_value(value):
            yield invalid(path.key(key), value, message)
        if key in ZONE_KEYS and split_zones(value) is None:
            yield invalid(path.key(key), value, f"must be zones separated by {go_quoted(_ZONE_DELIMITER)}")
