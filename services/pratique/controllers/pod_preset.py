"""PodPreset: injects environment variables, mounts and volumes into Pods with certain labels.

Source: ``plugin/pkg/admission/podpreset/admission.go`` of 1.19, the last release that had it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias

import msgspec

from pratique.admission.controllers import MUTATE, Controller, Handlers
from pratique.admission.results import Answer, Edits, allow, deny, warn
from pratique.admission.reviews import Review
from pratique.admission.rules import rule
from pratique.apimachinery import statuses
from pratique.apimachinery.errors import InputError, RefusalError
from pratique.apimachinery.json_values import JSON, JSONObject, member
from pratique.apimachinery.prepared_types import prepared
from pratique.apimachinery.selectors import LabelSelector, compile_selector
from pratique.pods import pod_spec

Path: TypeAlias = "tuple[str | int, ...]"
Key: TypeAlias = "Callable[[JSONObject], JSON]"
_PresetItem: TypeAlias = "tuple[str, JSONObject]"
"""The name of a preset, and an item that it brings."""

_PRESETS = ("settings.k8s.io", "podpresets")
_PREFIX = "podpreset.admission.kubernetes.io"
_EXCLUDE_ANNOTATION = f"{_PREFIX}/exclude"
_ANNOTATIONS = ("metadata", "annotations")


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Which release to follow where releases differ."""

    init_containers: bool = True
    """Also inject into init containers, as 1.14 and later do. False: as earlier releases do."""


class _MergedField(msgspec.Struct, frozen=True):
    """A list of a preset that is merged into a list of the Pod."""

    name: str
    """The name of the list in both."""
    noun: str
    """What messages call it."""
    keys: tuple[tuple[str, Key], ...]
    """What identifies an item: how messages introduce the key, and the key. An item with a new first key is added."""
    distinct: bool = True
    """False if several presets may add the same item."""


class _MergeResult(msgspec.Struct, frozen=True):
    """The result of a merge: the items to append to the list at ``path``, or the conflicts."""

    path: Path
    added: list[JSONObject] = msgspec.field(default_factory=list)
    conflicts: list[str] = msgspec.field(default_factory=list)


def mutate(settings: Settings, review: Review) -> Answer:
    """Inject all presets that select the Pod, or none if they conflict with it or with each other."""
    pod = review.object
    if not pod_spec.is_pod(pod):
        return deny(status=statuses.bad_request(pod_spec.NOT_A_POD))
    annotations = _string_map(pod, *_ANNOTATIONS)
    if pod_spec.MIRROR_ANNOTATION in annotations or annotations.get(_EXCLUDE_ANNOTATION) == "true":
        return allow()
    presets = _matching_presets(review)
    if not presets:
        return allow()
    merges = list(_merges(pod, presets, settings))
    conflicts = [conflict for merge in merges for conflict in merge.conflicts]
    if conflicts:
        names = ",".join(_preset_name(preset) for preset in presets)
        return warn(f"conflict occurred while applying podpresets: {names}: {statuses.aggregate(conflicts)}")
    return _apply_presets(pod, presets, merges)


def _apply_presets(pod: JSONObject, presets: Iterable[JSONObject], merges: Iterable[_MergeResult]) -> Answer:
    edits = Edits(pod)
    for merge in merges:
        for item in merge.added:
            edits.append(merge.path, item)
    for preset in presets:
        version = member(preset, "metadata", "resourceVersion") or ""
        edits.set((*_ANNOTATIONS, f"{_PREFIX}/podpreset-{_preset_name(preset)}"), str(version))
    return edits.answer()


def _matching_presets(review: Review) -> list[JSONObject]:
    """The presets of the namespace that select the Pod. An empty selector selects all Pods."""
    labels = _string_map(review.object, "metadata", "labels")
    presets = review.cluster.list(*_PRESETS, review.namespace)
    return [preset for preset in presets if _selects(preset, labels)]


def _selects(preset: JSONObject, labels: dict[str, str]) -> bool:
    written = member(preset, "spec", "selector") or {}
    try:
        return compile_selector(msgspec.convert(written, prepared(LabelSelector))).matches(labels)
    except (InputError, msgspec.ValidationError) as error:
        text = f"filtering pod presets failed: label selector conversion failed: {error} for selector: "
        raise RefusalError(statuses.plain_error(text + _go_selector(written))) from None


def _go_selector(selector: JSON) -> str:
    """Print a selector as Go's ``%v`` prints the struct."""
    labels = sorted((member(selector, "matchLabels") or {}).items())
    shown = " ".join(f"{key}:{value}" for key, value in labels)
    requirements = " ".join(map(_go_requirement, member(selector, "matchExpressions") or ()))
    return f"{{map[{shown}] [{requirements}]}}"


def _go_requirement(requirement: JSONObject) -> str:
    key, operator, values = (requirement.get(field) for field in ("key", "operator", "values"))
    return f"{{{key or ''} {operator or ''} [{' '.join(values or ())}]}}"


def _merges(pod: JSONObject, presets: Sequence[JSONObject], settings: Settings) -> Iterator[_MergeResult]:
    """Merge every list of the presets into every place it belongs to."""
    if volumes := _injected(presets, _VOLUMES):
        yield _merge(member(pod, "spec"), ("spec",), _VOLUMES, volumes)
    fields = [(field, injected) for field in _CONTAINER_FIELDS if (injected := _injected(presets, field))]
    for kind in ("containers", "initContainers") if settings.init_containers else ("containers",):
        containers = member(pod, "spec", kind)
        for index, container in enumerate(containers if isinstance(containers, list) else ()):
            for field, injected in fields:
                yield _merge(container, ("spec", kind, index), field, injected)


def _injected(presets: Iterable[JSONObject], field: _MergedField) -> list[_PresetItem]:
    return [
        (_preset_name(preset), item)
        for preset in presets
        for item in _items(member(preset, "spec", field.name))
    ]


def _merge(holder: JSON, place: Path, field: _MergedField, injected: Iterable[_PresetItem]) -> _MergeResult:
    merge = _MergeResult((*place, field.name))
    items = _items(member(holder, field.name))
    known = [{key(item): item for item in items} for _, key in field.keys]
    for preset, item in injected:
        keys = [key(item) for _, key in field.keys]
        if keys[0] not in known[0]:
            merge.added.append(item)
        for seen, key, (introduction, _) in zip(known, keys, field.keys, strict=True):
            if not _semantically_same(seen.get(key, item), item):
                where = introduction.format(key)
                merge.conflicts.append(f"merging {field.noun} for {preset} has a conflict{where}")
            if field.distinct:
                seen.setdefault(key, item)
    return merge


def _string_map(pod: JSONObject, *path: str) -> dict[str, str]:
    """Labels or annotations; empty if there is no map."""
    strings = member(pod, *path)
    return strings if isinstance(strings, dict) else {}


def _items(value: JSON) -> list[JSONObject]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _semantically_same(first: JSON, second: JSON) -> bool:
    return first is second or bool(_without_zeros(first) == _without_zeros(second))


def _without_zeros(value: JSON) -> JSON:
    """Drop zero values: to Kubernetes, an empty string equals none, and so does ``readOnly: false``."""
    if isinstance(value, list):
        return [_without_zeros(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        name: _without_zeros(child)
        for name, child in value.items()
        if child is not None and child != "" and not (name == "readOnly" and child is False)
    }


def _preset_name(preset: JSONObject) -> str:
    return str(member(preset, "metadata", "name"))


def _key_by(field: str) -> Key:
    return lambda item: str(item.get(field) or "")


def _env_source_key(item: JSONObject) -> JSON:
    """The key of an envFrom source."""
    names = (member(item, kind, "name") for kind in ("configMapRef", "secretRef"))
    return (item.get("prefix") or "", *(name or "" for name in names))


_VOLUMES = _MergedField("volumes", "volumes", ((" on {}", _key_by("name")),))
_CONTAINER_FIELDS = (
    _MergedField("env", "env", ((" on {}", _key_by("name")),)),
    _MergedField(
        "volumeMounts",
        "volume mounts",
        ((" on {}", _key_by("name")), (" on mount path {}", _key_by("mountPath"))),
    ),
    _MergedField("envFrom", "envFrom", (("", _env_source_key),), distinct=False),
)


def _build(settings: Settings) -> Handlers:
    return Handlers(mutate=functools.partial(mutate, settings))


CONTROLLER = Controller(
    name="PodPreset",
    summary="Injects the variables, mounts and volumes of the PodPresets that select a new Pod.",
    phases=MUTATE,
    rules=(rule("pods", operations=("CREATE",)),),
    build=_build,
    settings=Settings,
    looks_up=("podpresets",),
    removed_in="1.20",
    replaced_by="MutatingAdmissionWebhook",
    trusted=True,
)
