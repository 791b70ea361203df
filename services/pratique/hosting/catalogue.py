"""The catalogue: all admission controllers, their chain order, which are enabled, and how they get their settings.

The flags are those of kube-apiserver (``k8s.io/apiserver/pkg/server/options/admission.go`` and
``pkg/kubeapiserver/options/admission.go``). Errors use its exact words and add the closest correct name.
"""

from __future__ import annotations

import dataclasses
import difflib
import importlib
import importlib.metadata
import pkgutil
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from pratique import controllers as built_in_controllers
from pratique.admission.controllers import Controller, Handlers, Phase
from pratique.apimachinery.decoding import StrictDecodingError, decode_strictly
from pratique.apimachinery.errors import ConfigurationError
from pratique.apimachinery.json_values import JSON
from pratique.apimachinery.statuses import aggregate, go_quoted
from pratique.configuration.settings import ChainSettings


@dataclasses.dataclass(frozen=True, slots=True)
class HostedController:
    """A controller with its settings, ready to run."""

    controller: Controller
    settings: msgspec.Struct
    handlers: Handlers


def configure_controller(controller: Controller, configuration: JSON) -> HostedController:
    """Give a controller its settings (None for the defaults) and make its halves.

    Raises:
        ConfigurationError: the settings are not those of the controller. Names controller, field and reason.
    """
    try:
        settings = _decode_settings(controller, configuration)
        handlers = _build_handlers(controller, settings)
        _check_handlers(controller, handlers)
    except StrictDecodingError as error:
        raise _init_error(controller, _list_known_fields(error, controller.settings)) from None
    except ConfigurationError as error:
        raise _init_error(controller, str(error)) from None
    except Exception as error:  # somebody else's code may raise anything, and start-up has to say where
        raise _init_error(controller, f"{type(error).__name__}: {error}") from error
    return HostedController(controller, settings, handlers)


def host_elsewhere(controller: Controller, configuration: JSON, handlers: Handlers) -> HostedController:
    """Host a controller whose halves are somewhere else, where they were made from the same settings.

    Raises:
        ConfigurationError: the settings are not those of the controller.
    """
    try:
        return HostedController(controller, _decode_settings(controller, configuration), handlers)
    except StrictDecodingError as error:
        raise _init_error(controller, _list_known_fields(error, controller.settings)) from None


def _decode_settings(controller: Controller, configuration: JSON) -> msgspec.Struct:
    return decode_strictly({} if configuration is None else configuration, controller.settings)


def _build_handlers(controller: Controller, settings: msgspec.Struct) -> Handlers:
    if not controller.needs_backend:
        return controller.build(settings)
    # Here, because few chains ask a backend.
    from pratique.https.backends import open_backend  # noqa: PLC0415

    return controller.build(settings, open_backend)


def _check_handlers(controller: Controller, handlers: Handlers) -> None:
    """See that a controller brings what it says it does."""
    for phase, handler in ((Phase.MUTATE, handlers.mutate), (Phase.VALIDATE, handlers.validate)):
        if controller.hosted and (phase in controller.phases) != (handler is not None):
            raise ConfigurationError(f"its phases and the halves that it builds differ in {phase}")


def _init_error(controller: Controller, reason: str) -> ConfigurationError:
    """The error of ``k8s.io/apiserver/pkg/admission/plugins.go`` ``InitPlugin``."""
    return ConfigurationError(f"couldn't init admission plugin {go_quoted(controller.name)}: {reason}")


def _list_known_fields(error: StrictDecodingError, settings: type[msgspec.Struct]) -> str:
    """Add what would be right where a field of the settings themselves is unknown."""
    known = [field.encode_name for field in msgspec.structs.fields(settings)]
    unknown = any(len(each.path.steps) == 1 and each.path.steps[0] not in known for each in error.problems)
    return f"{error}; known fields: {', '.join(known) or 'none'}" if unknown else str(error)


__all__ = ["CHAIN_ORDER", "ENTRY_POINT_GROUP", "Catalogue", "HostedController", "load_catalogue"]

ENTRY_POINT_GROUP = "pratique.controllers"
"""Where packages name their controllers: each entry point is a Controller or an iterable of them."""

CHAIN_ORDER = (
    "AlwaysAdmit",
    "NamespaceAutoProvision",
    "NamespaceLifecycle",
    "NamespaceExists",
    "SecurityContextDeny",
    "LimitPodHardAntiAffinityTopology",
    "InitialResources",
    "PodPreset",
    "ResourceDefaults",
    "LimitRanger",
    "ServiceAccount",
    "NodeRestriction",
    "TaintNodesByCondition",
    "AlwaysPullImages",
    "ImagePolicyWebhook",
    "PodSecurity",
    "PodSecurityPolicy",
    "PodNodeSelector",
    "Priority",
    "DefaultTolerationSeconds",
    "PodTolerationRestriction",
    "DenyEscalatingExec",
    "DenyExecOnPrivileged",
    "EventRateLimit",
    "ExtendedResourceToleration",
    "PersistentVolumeLabel",
    "DefaultStorageClass",
    "StorageObjectInUseProtection",
    "PodGroupProtection",
    "OwnerReferencesPermissionEnforcement",
    "PersistentVolumeClaimResize",
    "RuntimeClass",
    "CertificateApproval",
    "CertificateSigning",
    "ClusterTrustBundleAttest",
    "CertificateSubjectRestriction",
    "DefaultIngressClass",
    "DenyServiceExternalIPs",
    "PodTopologyLabels",
    "PodGroupWorkloadExists",
    "NodeDeclaredFeatureValidator",
    "JobValidation",
    "PodResizeValidator",
    # Controllers of other packages stand here, by name.
    "MutatingAdmissionPolicy",
    "MutatingAdmissionWebhook",
    "Initializers",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionWebhook",
    "ResourceQuota",
    "AlwaysDeny",
)
"""Every admission controller that Kubernetes has or had, in the order in which they run.

That of 2026 (``pkg/kubeapiserver/options/plugins.go`` ``AllOrderedPlugins``), with those of 1.10 where they
stood among their neighbours, and ResourceDefaults, which was there before 1.0, in front of its successor.
"""

_THIRD_PARTY_POSITION = CHAIN_ORDER.index("MutatingAdmissionPolicy") - 0.5
_FLAG_NAME = re.compile(r"[A-Za-z][A-Za-z0-9._-]*")


@dataclasses.dataclass(frozen=True, slots=True)
class Catalogue:
    """All controllers that are installed, in chain order."""

    controllers: tuple[Controller, ...]
    origins: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """For the controllers of other packages, by name: the entry point that each came from, ``module:attribute``."""

    def __iter__(self) -> Iterator[Controller]:
        """The controllers, in chain order."""
        return iter(self.controllers)

    def get(self, name: str) -> Controller | None:
        """The controller of that name; None where there is none."""
        return next((each for each in self.controllers if each.name == name), None)

    def select(self, settings: ChainSettings) -> tuple[Controller, ...]:
        """The controllers of a chain, in the order in which they run.

        ``admission_control`` is the exact list in that order. Without it, those that are on by default are in
        the chain, with those enabled and without those disabled, in the order of the catalogue.

        Raises:
            ConfigurationError: a name is unknown, twice in the exact list, or both enabled and disabled.
        """
        faults = self._faults(settings)
        if faults:
            raise ConfigurationError(aggregate(faults))
        if settings.admission_control is not None:
            named = (self.get(name) for name in settings.admission_control)
            return tuple(each for each in named if each is not None)
        enabled, disabled = settings.enable_admission_plugins, settings.disable_admission_plugins
        return tuple(
            each for each in self if each.name in enabled or (each.default and each.name not in disabled)
        )

    def configure(
        self,
        controllers: Iterable[Controller],
        configurations: Mapping[str, JSON],
        source: Path | None = None,
    ) -> tuple[HostedController, ...]:
        """Give each controller its settings, by name from an AdmissionConfiguration, and make its halves.

        Raises:
            ConfigurationError: settings are not those of their controller, or name none that there is. The text
                begins with the file ``source``, where the settings come from one.
        """
        try:
            return self._configured(controllers, configurations)
        except ConfigurationError as error:
            raise ConfigurationError(f"{source}: {error}" if source else str(error)) from error.__cause__

    def _configured(
        self, controllers: Iterable[Controller], configurations: Mapping[str, JSON]
    ) -> tuple[HostedController, ...]:
        faults = [
            f"plugins: admission plugin {go_quoted(name)} is unknown{self._hint(name)}"
            for name in configurations
            if self.get(name) is None
        ]
        if faults:
            raise ConfigurationError(aggregate(faults))
        return tuple(configure_controller(each, configurations.get(each.name)) for each in controllers)

    def _faults(self, settings: ChainSettings) -> list[str]:
        exact = settings.admission_control
        enabled, disabled = settings.enable_admission_plugins, settings.disable_admission_plugins
        faults = []
        if exact is not None and (enabled or disabled):
            faults.append(
                "admission-control and enable-admission-plugins/disable-admission-plugins flags"
                " are mutually exclusive"
            )
        faults += self._unknown("admission-control", exact or ())
        faults += _repeated_names("admission-control", exact or ())
        faults += self._unknown("enable-admission-plugins", enabled)
        # What Kubernetes has and Pratique has not is off already.
        faults += self._unknown(
            "disable-admission-plugins", [name for name in disabled if name not in CHAIN_ORDER]
        )
        both = sorted(set(enabled) & set(disabled))
        if both:
            faults.append(
                f"[{' '.join(both)}] in enable-admission-plugins and disable-admission-plugins overlapped"
            )
        return faults

    def _unknown(self, flag: str, names: Iterable[str]) -> list[str]:
        return [
            f"{flag} plugin {go_quoted(name)} is unknown{self._hint(name)}"
            for name in names
            if self.get(name) is None
        ]

    def _hint(self, name: str) -> str:
        """What may have been meant by a name that is not in the catalogue."""
        if name in CHAIN_ORDER:
            return "; Kubernetes has or had it, Pratique does not"
        known = {each.name.lower(): each.name for each in self.controllers}
        close = difflib.get_close_matches(name.lower(), known, n=1)
        return f"; did you mean {go_quoted(known[close[0]])}?" if close else ""


def load_catalogue() -> Catalogue:
    """Find the controllers of Pratique and those of installed packages.

    Raises:
        ConfigurationError: a package's entry point cannot be loaded, is no controller, or uses a taken name.
    """
    found = _third_party()
    controllers = [*_built_in(), *(controller for controller, _ in found)]
    origins = {controller.name: origin for controller, origin in found}
    return Catalogue(tuple(sorted(controllers, key=_chain_position)), origins)


def find_in_package(origin: str, name: str) -> Controller:
    """Load one controller of another package, and nothing of any other.

    Raises:
        ConfigurationError: the entry point ``origin`` cannot be loaded, or has no controller of that name.
    """
    entry_point = importlib.metadata.EntryPoint(name, origin, ENTRY_POINT_GROUP)
    source = f"entry point {go_quoted(origin)}"
    for controller in _load_controllers(entry_point, source):
        if controller.name == name:
            return controller
    raise ConfigurationError(f"{source}: there is no admission controller {go_quoted(name)} in it")


_NOT_CONTROLLERS = frozenset({"quota", "usage_history"})
"""Packages beside the controllers that are no controllers: what ResourceQuota and InitialResources are made of."""


def _built_in() -> Iterator[Controller]:
    for module in pkgutil.iter_modules(built_in_controllers.__path__):
        if module.name in _NOT_CONTROLLERS:
            continue
        found = importlib.import_module(f"{built_in_controllers.__name__}.{module.name}").CONTROLLER
        if not isinstance(found, Controller):
            raise TypeError(f"pratique.controllers.{module.name}.CONTROLLER is no Controller")
        yield found


def _third_party() -> list[tuple[Controller, str]]:
    """The controllers of other packages, and the entry points that they came from."""
    taken = dict.fromkeys(CHAIN_ORDER, "Kubernetes'")
    found: list[tuple[Controller, str]] = []
    for entry_point in importlib.metadata.entry_points(group=ENTRY_POINT_GROUP):
        package = entry_point.dist.name if entry_point.dist else entry_point.module
        source = f"package {go_quoted(package)}, entry point {go_quoted(entry_point.name)}"
        for controller in _load_controllers(entry_point, source):
            name = go_quoted(controller.name)
            if not _FLAG_NAME.fullmatch(controller.name):
                raise ConfigurationError(f"{source}: {name} is no name for a flag: use letters and digits")
            if controller.name in taken:
                owner = taken[controller.name]
                raise ConfigurationError(f"{source}: admission controller {name} is already {owner}")
            taken[controller.name] = f"that of {source}"
            found.append((controller, entry_point.value))
    return found


def _load_controllers(entry_point: importlib.metadata.EntryPoint, source: str) -> tuple[Controller, ...]:
    try:
        loaded = entry_point.load()
        found = (loaded,) if isinstance(loaded, Controller) else tuple(loaded)
    except Exception as error:  # somebody else's code may raise anything, and start-up has to say where
        raise ConfigurationError(f"{source}: {type(error).__name__}: {error}") from error
    for each in found:
        if not isinstance(each, Controller):
            raise ConfigurationError(f"{source}: expected a Controller, got {type(each).__name__}")
    return found


def _chain_position(controller: Controller) -> tuple[float, str]:
    if controller.name in CHAIN_ORDER:
        return CHAIN_ORDER.index(controller.name), ""
    return _THIRD_PARTY_POSITION, controller.name


def _repeated_names(flag: str, names: Sequence[str]) -> list[str]:
    repeated = dict.fromkeys(name for name in names if names.count(name) > 1)
    return [f"{flag} plugin {go_quoted(name)} is given twice" for name in repeated]
