"""Releases: the Kubernetes release that a whole chain follows, and what that means for its controllers.

Without one, every controller does as the current release does. With one, each setting that a controller has for older
releases takes that release's value, unless an AdmissionConfiguration or a flag gives it.
"""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING, NamedTuple

from pratique.apimachinery.errors import InputError
from pratique.apimachinery.statuses import go_quoted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pratique.admission.controllers import Controller
    from pratique.apimachinery.json_values import JSON, JSONObject

_RELEASE = re.compile(r"v?1\.(0|[1-9][0-9]{0,2})(?:\.(?:0|[1-9][0-9]{0,3}))?", re.ASCII)


class Release(NamedTuple):
    """A minor release of Kubernetes."""

    major: int
    minor: int

    def __str__(self) -> str:
        """As in ``1.10``."""
        return f"{self.major}.{self.minor}"


OLDEST_RELEASE = Release(1, 0)
"""The oldest release that a chain can follow."""

CURRENT_RELEASE = Release(1, 37)
"""The release whose behaviour controllers follow unless told otherwise."""


def read_release(text: str) -> Release:
    """Read a release: ``1.10``, ``v1.10`` or, as behaviour does not change within one, ``1.10.3``.

    Raises:
        InputError: it is none, or one that a chain cannot follow.
    """
    found = _RELEASE.fullmatch(text)
    release = Release(1, int(found[1])) if found else None
    if release is None or not OLDEST_RELEASE <= release <= CURRENT_RELEASE:
        raise InputError(
            f"{go_quoted(text)} is not a release that can be followed; name one from {OLDEST_RELEASE} to {CURRENT_RELEASE}"
        )
    return release


@dataclasses.dataclass(frozen=True, slots=True)
class _FormerBehaviour:
    """A setting of a controller that had another value in older releases."""

    settings: JSONObject
    before: Release
    """The first release that does otherwise."""
    since: Release = OLDEST_RELEASE
    """The first release that does so."""


_BEHAVIOURS: Mapping[str, tuple[_FormerBehaviour, ...]] = {
    "DefaultStorageClass": (_FormerBehaviour({"refuseSeveralDefaults": True}, Release(1, 26)),),
    "DefaultTolerationSeconds": (_FormerBehaviour({"alpha-taints": True}, Release(1, 9)),),
    "DenyEscalatingExec": (_FormerBehaviour({"checkHostNetwork": False}, Release(1, 10)),),
    "LimitRanger": (_FormerBehaviour({"podUpdates": True}, Release(1, 11)),),
    "NodeRestriction": (
        _FormerBehaviour({"featureGates": {"ServiceAccountNodeAudienceRestriction": False}}, Release(1, 32)),
        _FormerBehaviour(
            {"featureGates": {"AllowInsecureKubeletCertificateSigningRequests": True}}, Release(1, 31)
        ),
    ),
    "OwnerReferencesPermissionEnforcement": (_FormerBehaviour({"checkCreations": True}, Release(1, 11)),),
    "PersistentVolumeClaimResize": (
        _FormerBehaviour({"checkVolumePlugin": True}, Release(1, 12), since=Release(1, 8)),
    ),
    "PersistentVolumeLabel": (_FormerBehaviour({"nodeAffinity": False}, Release(1, 10)),),
    "PodPreset": (_FormerBehaviour({"initContainers": False}, Release(1, 14)),),
    "PodSecurityPolicy": (_FormerBehaviour({"release": "1.10"}, Release(1, 11)),),
    "PodTolerationRestriction": (
        _FormerBehaviour({"exact": True}, Release(1, 17)),
        _FormerBehaviour({"emptyOverrides": False}, Release(1, 12)),
    ),
    "Priority": (
        _FormerBehaviour({"release": "1.10"}, Release(1, 11)),
        _FormerBehaviour({"systemClassesOnlyInKubeSystem": True}, Release(1, 17), since=Release(1, 11)),
    ),
    # Not to wait for a token: where no Secret is listed, a controller of the cluster is taken to make it later.
    "ServiceAccount": (
        _FormerBehaviour({"boundServiceAccountTokenVolume": False, "requireAPIToken": False}, Release(1, 21)),
    ),
    "StorageObjectInUseProtection": (
        _FormerBehaviour({"featureGates": {"VolumeAttributesClass": False}}, Release(1, 34)),
    ),
}
"""By controller, what older releases did; the pages of the controllers say where each is from."""


def release_settings(release: Release | None) -> dict[str, JSONObject]:
    """The settings that make controllers do as a release does, by their names."""
    found: dict[str, JSONObject] = {}
    if release is None:
        return found
    for name, behaviours in _BEHAVIOURS.items():
        settings: JSONObject = {}
        for one in behaviours:
            if one.since <= release < one.before:
                settings = merge_settings(settings, one.settings)
        if settings:
            found[name] = settings
    return found


def merge_settings(settings: JSONObject, own: Mapping[str, JSON]) -> JSONObject:
    """Settings with others on top of them; of mappings within, such as feature gates, each member by itself."""
    merged = dict(settings)
    for name, value in own.items():
        below = merged.get(name)
        is_within = isinstance(below, dict) and isinstance(value, dict)
        merged[name] = below | value if is_within else value
    return merged


def notices(controllers: Iterable[Controller], release: Release | None) -> Iterator[str]:
    """Tell which controllers of a chain a release has no more, or has on their way out; None: the current one.

    What is deprecated is told as kube-apiserver logs it when it starts: ``NewAlwaysAdmit`` in
    ``plugin/pkg/admission/admit/admission.go``, and likewise in those of the others.
    """
    followed = release or CURRENT_RELEASE
    for one in controllers:
        if one.removed_in is not None and read_release(one.removed_in) <= followed:
            instead = f"; use {one.replaced_by}" if one.replaced_by else ""
            yield f"{one.name}: Kubernetes removed this admission controller in {one.removed_in}{instead}"
        elif one.deprecated_in is not None and read_release(one.deprecated_in) <= followed:
            yield (
                f"{one.name} admission controller is deprecated."
                " Please remove this controller from your configuration files and scripts."
            )
