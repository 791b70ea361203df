"""PersistentVolumeLabel: labels a volume with the zone of its disk, and binds it to the nodes there.

Source: ``plugin/pkg/admission/storage/persistentvolume/label/admission.go`` of 1.29, with OpenStack's disks, which
1.26 dropped.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from pratique.admission.controllers import MUTATE, Controller, Handlers
from pratique.admission.results import Answer, Edits, allow, deny
from pratique.admission.reviews import Review
from pratique.admission.rules import rule
from pratique.apimachinery.errors import ConfigurationError
from pratique.apimachinery.json_values import JSON, JSONObject, member
from pratique.pods.volumes import (
    DISK_SOURCES,
    ZONE_KEYS,
    ListedVolumes,
    VolumeLabeler,
    VolumeLabelError,
    VolumeLabels,
    disk_of,
    load_labeler,
    split_zones,
)

PROVISIONED_BY_ANNOTATION = "pv.kubernetes.io/provisioned-by"
"""The annotation of volumes that a provisioner made. Provisioners know the zones of their disks."""

PROVISIONING_PLACEHOLDER = "placeholder-for-provisioning"
"""The name of a disk that does not exist yet."""

_TRUSTED_LABELS = (
    ("topology.kubernetes.io/zone", "topology.kubernetes.io/region"),
    ("failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"),
)
"""The labels of a provisioned volume that are trusted, if it has both of a pair."""

_NODE_SELECTOR_TERMS = ("spec", "nodeAffinity", "required", "nodeSelectorTerms")


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Where the labels come from, and which release to follow where releases differ."""

    volumes: tuple[VolumeLabels, ...] | None = None
    """The labels of all existing disks."""
    labeler: str | None = None
    """The name of a labeler from an installed package, instead of ``volumes``."""
    node_affinity: bool = True
    """Also bind volumes to the nodes of their labels. False: set only labels, as releases before 1.10 do."""


class _VolumeLabeling(msgspec.Struct, frozen=True):
    labeler: VolumeLabeler | None
    node_affinity: bool

    async def mutate(self, review: Review) -> Answer:
        """Set the labels of the volume's disk, overwriting the user's, and the node affinity that follows from them."""
        volume = review.object
        if not isinstance(volume, dict) or volume.get("kind", "PersistentVolume") != "PersistentVolume":
            return allow()
        try:
            return self._label(Edits(volume), _trusted_labels(volume) or await self._find(volume)).answer()
        except VolumeLabelError as error:
            return deny(str(error))

    def _label(self, edits: Edits, labels: Mapping[str, str]) -> Edits:
        requirements = [_requirement(key, value) for key, value in sorted(labels.items())]
        for key, value in sorted(labels.items()):
            edits.set(("metadata", "labels", key), value)
        if self.node_affinity:
            _add_requirements(edits, requirements)
            # A second pass would trust the labels that were just set, and then require these too.
            believed = sorted(_trusted_labels(edits.document).items())
            _add_requirements(edits, [_requirement(key, value) for key, value in believed])
        return edits

    async def _find(self, volume: JSONObject) -> Mapping[str, str]:
        """Look up the labels of the volume's disk."""
        disk = disk_of(volume)
        # vSphere's paths are looked up even if they look like the placeholder.
        if disk is None or (disk.id == PROVISIONING_PLACEHOLDER and disk.source != "vsphereVolume"):
            return {}
        source = DISK_SOURCES[disk.source]
        query = f"error querying {source.title} {disk.id}"
        if self.labeler is None:
            raise VolumeLabelError(f"{query}: unable to build {source.provider}")
        try:
            return await self.labeler.labels(volume)
        except VolumeLabelError as error:
            raise VolumeLabelError(f"{query}: {error}") from None


def _trusted_labels(volume: JSONObject) -> dict[str, str]:
    """The zone and region of a volume that a provisioner made; empty if they are not certain."""
    annotations = member(volume, "metadata", "annotations")
    if not isinstance(annotations, dict) or PROVISIONED_BY_ANNOTATION not in annotations:
        return {}
    for keys in _TRUSTED_LABELS:
        values = [member(volume, "metadata", "labels", key) for key in keys]
        if all(isinstance(value, str) for value in values):
            return dict(zip(keys, values, strict=True))
    return {}


def _requirement(key: str, value: str) -> JSONObject:
    values = split_zones(value) if key in ZONE_KEYS else [value]
    if values is None:
        raise VolumeLabelError(f"failed to convert label string for Zone: {value} to a Set")
    return {"key": key, "operator": "In", "values": values}


def _add_requirements(edits: Edits, requirements: list[JSONObject]) -> None:
    """Add the requirements to every term, unless a term has one of their keys already."""
    if not requirements:
        return
    terms = edits.get(_NODE_SELECTOR_TERMS)
    if not terms or not isinstance(terms, list):
        edits.append(_NODE_SELECTOR_TERMS, {"matchExpressions": requirements})
        return
    required = {key for term in terms for key in _required_keys(term)}
    if required.isdisjoint(requirement["key"] for requirement in requirements):
        for index in range(len(terms)):
            for requirement in requirements:
                edits.append((*_NODE_SELECTOR_TERMS, index, "matchExpressions"), requirement)


def _required_keys(term: JSON) -> list[str]:
    expressions = member(term, "matchExpressions")
    return (
        [str(member(expression, "key")) for expression in expressions]
        if isinstance(expressions, list)
        else []
    )


def _build(settings: Settings) -> Handlers:
    return build(settings, _labeler(settings))


def _labeler(settings: Settings) -> VolumeLabeler | None:
    if settings.labeler is None:
        return None if settings.volumes is None else ListedVolumes(settings.volumes)
    if settings.volumes is not None:
        raise ConfigurationError("labeler: set either labeler or volumes, not both")
    return load_labeler(settings.labeler)


def build(settings: Settings, labeler: VolumeLabeler | None) -> Handlers:
    """Make the controller; ``labeler`` knows the labels of disks, None if there is none."""
    return Handlers(mutate=_VolumeLabeling(labeler, settings.node_affinity).mutate)


CONTROLLER = Controller(
    name="PersistentVolumeLabel",
    summary="Labels a volume with the zone of its disk, and binds it to the nodes there.",
    phases=MUTATE,
    rules=(rule("persistentvolumes", operations=("CREATE",)),),
    build=_build,
    settings=Settings,
    deprecated_in="1.8",
    removed_in="1.31",
    replaced_by="cloud-pv-admission-labeler, or the webhook of the cloud provider",
    trusted=True,
)
