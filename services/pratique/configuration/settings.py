"""The settings that all services of a chain share, and the Kubernetes release that the chain follows.

Without a release, each controller behaves as in the current one. With one, each setting that a controller has for older
releases takes that release's value, unless an AdmissionConfiguration or a flag sets it.
"""

from __future__ import annotations

import dataclasses
import enum
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pratique.apimachinery.errors import InputError
from pratique.apimachinery.statuses import go_quoted
from pratique.configuration.input_digests import GRACE_SECONDS

if TYPE_CHECKING:
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


class Isolation(enum.StrEnum):
    """What stands between a service and the controllers of installed packages. Pratique's own run in the service."""

    PROCESS = "process"
    """A process for each: one that spins, crashes its interpreter or is killed costs its own outcome alone."""
    THREAD = "thread"
    """The service's own process, in threads and tasks: without the memory and the hop, and on trust."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ChainSettings:
    """What is in the chain and what it knows: the flags that all services take alike."""

    config: tuple[Path, ...] = ()
    """Files and folders of webhook configurations and policies."""
    cluster: tuple[Path, ...] | None = None
    """Files and folders of the objects that controllers look up. None: every namespace exists, and nothing else."""
    enable_admission_plugins: tuple[str, ...] = ()
    """Controllers beside the default ones."""
    disable_admission_plugins: tuple[str, ...] = ()
    """Default controllers to leave out."""
    admission_control: tuple[str, ...] | None = None
    """The exact list, in that order; None: the default set with what the two lists above change."""
    admission_control_config_file: Path | None = None
    """An ``AdmissionConfiguration``; None: every controller has its defaults."""
    plugin_flags: Mapping[str, Mapping[str, JSON]] = dataclasses.field(default_factory=dict)
    """What flags say to controllers: by a controller's name, settings under the flags' names."""
    release: Release | None = None
    """The Kubernetes release that controllers follow; None: the current one."""
    reload_grace_seconds: float = GRACE_SECONDS
    """How long what files held before they changed is kept, so that those who notice later can be agreed with."""
    first_denial_only: bool = False
    """Answer with one denial, as the API server does, instead of with all."""
