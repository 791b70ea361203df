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

import msgspec

from pratique.apimachinery.errors import InputError
from pratique.apimachinery.patterns import pattern
from pratique.apimachinery.statuses import go_quoted
from pratique.cluster.authorization import AUTHORIZED_SECONDS, UNAUTHORIZED_SECONDS
from pratique.cluster.store import STALENESS_SECONDS
from pratique.configuration.input_digests import GRACE_SECONDS

if TYPE_CHECKING:
    from pratique.admission.controllers import Controller
    from pratique.apimachinery.json_values import JSON, JSONObject


_RELEASE = pattern(r"v?1\.(0|[1-9][0-9]{0,2})(?:\.(?:0|[1-9][0-9]{0,3}))?", re.ASCII)


class Release(NamedTuple):
    """A minor release of Kubernetes."""

    major: int
    minor: int

    def __str__(self) -> str:
        """Such as ``1.10``."""
        return f"{self.major}.{self.minor}"


OLDEST_RELEASE = Release(1, 0)
"""The oldest release that a chain can follow."""

CURRENT_RELEASE = Release(1, 37)
"""The release that controllers follow by default."""


def read_release(text: str) -> Release:
    """Parse a release: ``1.10`` or ``v1.10``; a patch version as in ``1.10.3`` is ignored.

    Raises:
        InputError: it is malformed, or a release that a chain cannot follow.
    """
    found = _RELEASE.fullmatch(text)
    release = Release(1, int(found[1])) if found else None
    if release is None or not OLDEST_RELEASE <= release <= CURRENT_RELEASE:
        raise InputError(
            f"{go_quoted(text)} is not a supported release; choose one "
            f"from {OLDEST_RELEASE} to {CURRENT_RELEASE}"
        )
    return release


class _FormerBehaviour(msgspec.Struct, frozen=True):
    """Settings of a controller that restore the behaviour of older releases."""

    settings: JSONObject
    before: Release
    """The first release with the new behaviour."""
    since: Release = OLDEST_RELEASE
    """The first release with the old behaviour."""


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
    "NodeDeclaredFeatureValidator": (
        _FormerBehaviour({"featureGates": {"NodeDeclaredFeatures": False}}, Release(1, 36)),
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
    "PodTopologyLabels": (
        _FormerBehaviour({"featureGates": {"PodTopologyLabelsAdmission": False}}, Release(1, 35)),
    ),
    "Priority": (
        _FormerBehaviour({"release": "1.10"}, Release(1, 11)),
        _FormerBehaviour({"systemClassesOnlyInKubeSystem": True}, Release(1, 17), since=Release(1, 11)),
    ),
    # requireAPIToken off: if no Secret is listed, a controller of the cluster is assumed to create the token later.
    "ServiceAccount": (
        _FormerBehaviour({"boundServiceAccountTokenVolume": False, "requireAPIToken": False}, Release(1, 21)),
    ),
    "StorageObjectInUseProtection": (
        _FormerBehaviour({"featureGates": {"VolumeAttributesClass": False}}, Release(1, 34)),
    ),
}
"""The behaviour of older releases, by controller; the pages of the controllers name the sources."""


def release_settings(release: Release | None) -> dict[str, JSONObject]:
    """The settings that make controllers behave as in a release, by controller name."""
    found: dict[str, JSONObject] = {}
    if release is None:
        return found
    for name, behaviours in _BEHAVIOURS.items():
        settings: JSONObject = {}
        for behaviour in behaviours:
            if behaviour.since <= release < behaviour.before:
                settings = merge_settings(settings, behaviour.settings)
        if settings:
            found[name] = settings
    return found


def merge_settings(settings: JSONObject, own: Mapping[str, JSON]) -> JSONObject:
    """Merge ``own`` over ``settings``; nested mappings, such as feature gates, are merged member by member."""
    merged = dict(settings)
    for name, value in own.items():
        below = merged.get(name)
        is_within = isinstance(below, dict) and isinstance(value, dict)
        merged[name] = below | value if is_within else value
    return merged


def deprecation_notices(controllers: Iterable[Controller], release: Release | None) -> Iterator[str]:
    """Yield a notice for each controller that a release, or with None the current one, has removed or deprecated.

    Deprecations are worded as kube-apiserver logs them at start: ``NewAlwaysAdmit`` in
    ``plugin/pkg/admission/admit/admission.go``, and so in other controllers.
    """
    followed = release or CURRENT_RELEASE
    for controller in controllers:
        if controller.removed_in is not None and read_release(controller.removed_in) <= followed:
            instead = f"; use {controller.replaced_by}" if controller.replaced_by else ""
            yield f"{controller.name}: Kubernetes removed this admission controller in {controller.removed_in}{instead}"
        elif controller.deprecated_in is not None and read_release(controller.deprecated_in) <= followed:
            yield (
                f"{controller.name} admission controller is deprecated."
                " Please remove this controller from your configuration files and scripts."
            )


class OnOff(enum.StrEnum):
    """Whether something is done."""

    ON = "on"
    OFF = "off"


class AuthorizerSource(enum.StrEnum):
    """What says what users may do, where controllers and expressions ask."""

    STORE = "store"
    """The Roles and bindings among the objects that controllers look up."""
    CLUSTER = "cluster"
    """The API server of the live cluster, which is asked by SubjectAccessReview."""


class Isolation(enum.StrEnum):
    """How controllers of installed packages are isolated. Pratique's own controllers run in the service."""

    PROCESS = "process"
    """Each runs in its own process: if it hangs, crashes or is killed, only its own outcome fails."""
    THREAD = "thread"
    """They run in the service's process, in threads and tasks. That saves memory and a hop, and needs trust."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ChainSettings:
    """The flags that all services of a chain share: its controllers and their inputs."""

    config: tuple[Path, ...] = ()
    """Files and folders of webhook configurations and policies."""
    cluster: tuple[Path, ...] | None = None
    """Files and folders of the objects that controllers look up. None: every namespace exists, and nothing else."""
    kubeconfig: Path | None = None
    """A kubeconfig: the objects of its cluster are followed, beside those of files."""
    context: str = ""
    """The kubeconfig's context; empty for its current one."""
    in_cluster: bool = False
    """Whether to follow the objects of the cluster that this process is a Pod of."""
    cluster_staleness_seconds: float = STALENESS_SECONDS
    """How long live objects may be unconfirmed before look-ups are refused."""
    policies_from: tuple[str, ...] = ()
    """Where in the live cluster policies and webhook configurations come from, beside files: see
    :mod:`pratique.configuration.live_configurations`."""
    authorizer: AuthorizerSource = AuthorizerSource.STORE
    """What says what users may do."""
    authorized_seconds: float = AUTHORIZED_SECONDS
    """How long to remember what the API server says that users may do."""
    unauthorized_seconds: float = UNAUTHORIZED_SECONDS
    """How long to remember what it says that they may not do."""
    enable_admission_plugins: tuple[str, ...] = ()
    """Controllers to add to the default set."""
    disable_admission_plugins: tuple[str, ...] = ()
    """Controllers to remove from the default set."""
    admission_control: tuple[str, ...] | None = None
    """The exact list of controllers, in order; None: the default set as changed by the two lists above."""
    admission_control_config_file: Path | None = None
    """An ``AdmissionConfiguration``; None: all controllers have their defaults."""
    plugin_flags: Mapping[str, Mapping[str, JSON]] = dataclasses.field(default_factory=dict)
    """Controllers' settings from flags: by a controller's name, then by the flag's name."""
    release: Release | None = None
    """The Kubernetes release that controllers follow; None: the current one."""
    reload_grace_seconds: float = GRACE_SECONDS
    """How long replaced inputs are kept for processes that notice a change later."""
    first_denial_only: bool = False
    """Stop at the first denial, as the API server does, instead of collecting all."""
    calls_conversion_webhooks: bool = True
    """Whether the webhooks that convert custom resources may be called; without them such conversions are errors."""

    @property
    def is_live(self) -> bool:
        """Whether the objects come from an API server."""
        return self.in_cluster or self.kubeconfig is not None

    @property
    def access_review_seconds(self) -> tuple[float, float] | None:
        """How long to remember what the API server allows and what not; None if it is not to be asked."""
        is_asked = self.authorizer is AuthorizerSource.CLUSTER
        return (self.authorized_seconds, self.unauthorized_seconds) if is_asked else None
