"""PersistentVolumeLabel: a volume says in which zone its disk is, and is used in that zone only.

Source: ``plugin/pkg/admission/storage/persistentvolume/label/admission.go`` of 1.29, with OpenStack's disks, which
1.26 gave up.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import msgspec

from pratique.admission.controllers import MUTATE, Controller, Handlers
from pratique.admission.edits import Edits
from pratique.admission.results import Answer, allow, deny
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
"""The annotation of volumes that a provisioner made, who knows where their disks are."""

PROVISIONING_PLACEHOLDER = "placeholder-for-provisioning"
"""Names a disk that is still to be made."""

_TRUSTED_LABELS = (
    ("topology.kubernetes.io/zone", "topology.kubernetes.io/region"),
    ("failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"),
)
"""Labels that are believed of a provisioned volume that has both of a pair."""

_NODE_SELECTOR_TERMS = ("spec", "nodeAffinity", "required", "nodeSelectorTerms")


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Who knows the labels, and which release to follow where they differ."""

    volumes: tuple[VolumeLabels, ...] | None = None
    """The labels of all disks there are."""
    labeler: str | None = None
    """The name of the labeler of an installed package, instead of ``volumes``."""
    node_affinity: bool = True
    """Bind volumes to the nodes of their labels, too. False: labels alone, as releases before 1.10 do."""


@dataclasses.dataclass(frozen=True, slots=True)
class _VolumeLabeling:
    labeler: VolumeLabeler | None
    node_affinity: bool

    async def mutate(self, review: Review) -> Answer:
        """Set the labels of the volume's disk, whatever the user wrote, and the affinity that follows from them."""
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
            # What was set may be believed when the volume is seen once more, and would be required then.
            believed = sorted(_trusted_labels(edits.document).items())
            _add_requirements(edits, [_requirement(key, value) for key, value in believed])
        return edits

    async def _find(self, volume: JSONObject) -> Mapping[str, str]:
        """Ask for the labels of the volume's disk."""
        disk = disk_of(volume)
        # vSphere's paths are looked up whatever they are.
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
    """Zone and region of a volume that a provisioner made; none where it is not sure."""
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
    """Add to every term what it has to require; nothing where any of that is required of a term already."""
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
    return [str(member(each, "key")) for each in expressions] if isinstance(expressions, list) else []


def _build(settings: Settings) -> Handlers:
    return build(settings, _labeler(settings))


def _labeler(settings: Settings) -> VolumeLabeler | None:
    if settings.labeler is None:
        return None if settings.volumes is None else ListedVolumes(settings.volumes)
    if settings.volumes is not None:
        raise ConfigurationError("labeler: there cannot be volumes as well: one of them knows the labels")
    return load_labeler(settings.labeler)


def build(settings: Settings, labeler: VolumeLabeler | None) -> Handlers:
    """Make the controller; ``labeler`` knows the labels of disks, None where nobody can be asked."""
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
