"""The catalogue: all admission controllers, their chain order, which are enabled, and how they get their settings.

The flags are those of kube-apiserver (``k8s.io/apiserver/pkg/server/options/admission.go`` and
``pkg/kubeapiserver/options/admission.go``). Errors use its exact words and add the closest correct name.
"""

from __future__ import annotations

import difflib
import importlib
import os
import pkgutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from pratique import controllers as built_in_controllers
from pratique.admission.controllers import Controller, FailurePolicy, Handlers, Phase
from pratique.apimachinery.decoding import StrictDecodingError, decode_strictly
from pratique.apimachinery.errors import ConfigurationError
from pratique.apimachinery.json_values import JSON
from pratique.apimachinery.patterns import pattern
from pratique.apimachinery.statuses import aggregate, go_quoted
from pratique.configuration.settings import ChainSettings
from pratique.hosting.chain_order import CHAIN_ORDER, in_chain_order
from pratique.hosting.selection import RequestSelection

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


class HostedController(msgspec.Struct, frozen=True):
    """A controller with its settings, ready to run."""

    controller: Controller
    settings: msgspec.Struct
    handlers: Handlers
    selection: RequestSelection | None = None
    """Which requests it gets; None if its rules alone say that."""


def configure_controller(controller: Controller, configuration: JSON) -> HostedController:
    """Decode a controller's settings (None for the defaults) and build its handlers.

    Raises:
        ConfigurationError: the settings are invalid. The text names the controller, the field and the reason.
    """
    try:
        settings = _decode_settings(controller, configuration)
        handlers = _build_handlers(controller, settings)
        _check_handlers(controller, handlers)
        selection = RequestSelection.of(controller)
    except StrictDecodingError as error:
        raise _init_error(controller, _list_known_fields(error, controller.settings)) from None
    except ConfigurationError as error:
        raise _init_error(controller, str(error)) from None
    except Exception as error:  # third-party code can raise anything, and start-up must name the controller
        raise _init_error(controller, f"{type(error).__name__}: {error}") from error
    return HostedController(controller, settings, handlers, selection)


def host_elsewhere(controller: Controller, configuration: JSON, handlers: Handlers) -> HostedController:
    """Host a controller whose handlers run elsewhere, built from the same settings.

    Raises:
        ConfigurationError: the settings are invalid, or selectors or match conditions.
    """
    try:
        settings = _decode_settings(controller, configuration)
        return HostedController(controller, settings, handlers, RequestSelection.of(controller))
    except StrictDecodingError as error:
        raise _init_error(controller, _list_known_fields(error, controller.settings)) from None
    except ConfigurationError as error:
        raise _init_error(controller, str(error)) from None


def without_selection(hosted: HostedController) -> HostedController:
    """The controller as a process runs it that gets only what was selected, and whose failures others judge."""
    plain = msgspec.structs.replace(hosted.controller, failure_policy=FailurePolicy.FAIL)
    return msgspec.structs.replace(hosted, controller=plain, selection=None)


def _decode_settings(controller: Controller, configuration: JSON) -> msgspec.Struct:
    return decode_strictly({} if configuration is None else configuration, controller.settings)


def _build_handlers(controller: Controller, settings: msgspec.Struct) -> Handlers:
    if not controller.needs_backend:
        return controller.build(settings)
    # Imported here because few chains need a backend.
    from pratique.https.backends import open_backend  # noqa: PLC0415

    return controller.build(settings, open_backend)


def _check_handlers(controller: Controller, handlers: Handlers) -> None:
    """Check that a controller has handlers for exactly its phases."""
    for phase, handler in ((Phase.MUTATE, handlers.mutate), (Phase.VALIDATE, handlers.validate)):
        if controller.hosted and (phase in controller.phases) != (handler is not None):
            raise ConfigurationError(f"its phases and the handlers that it builds differ in {phase}")


def _init_error(controller: Controller, reason: str) -> ConfigurationError:
    """The error of ``k8s.io/apiserver/pkg/admission/plugins.go`` ``InitPlugin``."""
    return ConfigurationError(f"couldn't init admission plugin {go_quoted(controller.name)}: {reason}")


def _list_known_fields(error: StrictDecodingError, settings: type[msgspec.Struct]) -> str:
    """Add the known fields to the error of an unknown top-level field."""
    known = [field.encode_name for field in msgspec.structs.fields(settings)]
    unknown = any(
        len(problem.path.steps) == 1 and problem.path.steps[0] not in known for problem in error.problems
    )
    return f"{error}; known fields: {', '.join(known) or 'none'}" if unknown else str(error)


__all__ = ["CHAIN_ORDER", "ENTRY_POINT_GROUP", "Catalogue", "HostedController", "load_catalogue"]

ENTRY_POINT_GROUP = "pratique.controllers"
"""The entry points of controller packages: each is a Controller or an iterable of Controllers."""

_FLAG_NAME = pattern(r"[A-Za-z][A-Za-z0-9._-]*")


class Catalogue(msgspec.Struct, frozen=True):
    """All installed controllers, in chain order."""

    controllers: tuple[Controller, ...]
    origins: Mapping[str, str] = msgspec.field(default_factory=dict)
    """The entry point of each controller from another package, ``module:attribute``, by the controller's name."""

    def __iter__(self) -> Iterator[Controller]:
        """The controllers, in chain order."""
        return iter(self.controllers)

    def get(self, name: str) -> Controller | None:
        """Return the controller with that name; None if there is none."""
        return next((controller for controller in self.controllers if controller.name == name), None)

    def select(self, settings: ChainSettings) -> tuple[Controller, ...]:
        """Return the controllers of a chain, in the order in which they run.

        ``admission_control`` is the exact list, in its own order. Without it, the chain has the default controllers,
        plus the enabled and minus the disabled ones, in catalogue order.

        Raises:
            ConfigurationError: a name is unknown, twice in the exact list, or both enabled and disabled.
        """
        faults = self._faults(settings)
        if faults:
            raise ConfigurationError(aggregate(faults))
        if settings.admission_control is not None:
            found = (self.get(name) for name in settings.admission_control)
            return tuple(controller for controller in found if controller is not None)
        enabled, disabled = settings.enable_admission_plugins, settings.disable_admission_plugins
        return tuple(
            controller
            for controller in self
            if controller.name in enabled or (controller.default and controller.name not in disabled)
        )

    def configure(
        self,
        controllers: Iterable[Controller],
        configurations: Mapping[str, JSON],
        source: Path | None = None,
    ) -> tuple[HostedController, ...]:
        """Configure controllers with the settings from an AdmissionConfiguration, by name, and build their handlers.

        Raises:
            ConfigurationError: settings are invalid, or name an unknown controller. The text begins with the file
                ``source``, if the settings come from a file.
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
        return tuple(
            configure_controller(controller, configurations.get(controller.name))
            for controller in controllers
        )

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
        # Controllers that Kubernetes has and Pratique lacks are off anyway.
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
        """Suggest what an unknown name may have meant."""
        if name in CHAIN_ORDER:
            return "; Kubernetes has or had it, Pratique does not"
        known = {controller.name.lower(): controller.name for controller in self.controllers}
        close = difflib.get_close_matches(name.lower(), known, n=1)
        return f"; did you mean {go_quoted(known[close[0]])}?" if close else "; `pratique plugins` lists all"


def load_catalogue() -> Catalogue:
    """Load Pratique's own controllers and those of installed packages.

    Raises:
        ConfigurationError: an entry point cannot be loaded, is not a controller, uses a name that is taken, or wants a
            place in the chain that there is not.
    """
    found = _third_party()
    controllers = [*_built_in(), *(controller for controller, _ in found)]
    origins = {controller.name: origin for controller, origin in found}
    return Catalogue(in_chain_order(controllers), origins)


def find_in_package(origin: str, name: str) -> Controller:
    """Load one controller from another package, without loading any other package.

    Raises:
        ConfigurationError: the entry point ``origin`` cannot be loaded, or has no controller of that name.
    """
    from importlib.metadata import EntryPoint  # noqa: PLC0415 - see _may_have_entry_points

    entry_point = EntryPoint(name, origin, ENTRY_POINT_GROUP)
    source = f"entry point {go_quoted(origin)}"
    for controller in _load_controllers(entry_point, source):
        if controller.name == name:
            return controller
    raise ConfigurationError(f"{source}: there is no admission controller {go_quoted(name)} in it")


_NOT_CONTROLLERS = frozenset({"quota", "usage_history"})
"""Packages in ``pratique.controllers`` that are not controllers but parts of ResourceQuota and InitialResources."""


def _built_in() -> Iterator[Controller]:
    for module in pkgutil.iter_modules(built_in_controllers.__path__):
        if module.name in _NOT_CONTROLLERS:
            continue
        found = importlib.import_module(f"{built_in_controllers.__name__}.{module.name}").CONTROLLER
        if not isinstance(found, Controller):
            raise TypeError(f"pratique.controllers.{module.name}.CONTROLLER is not a Controller")
        yield found


def _third_party() -> list[tuple[Controller, str]]:
    """Load the controllers of other packages, with their entry points."""
    if not _may_have_entry_points():
        return []
    from importlib.metadata import entry_points  # noqa: PLC0415 - see _may_have_entry_points

    taken = dict.fromkeys(CHAIN_ORDER, "Kubernetes'")
    found: list[tuple[Controller, str]] = []
    for entry_point in entry_points(group=ENTRY_POINT_GROUP):
        package = entry_point.dist.name if entry_point.dist else entry_point.module
        source = f"package {go_quoted(package)}, entry point {go_quoted(entry_point.name)}"
        for controller in _load_controllers(entry_point, source):
            name = go_quoted(controller.name)
            if not _FLAG_NAME.fullmatch(controller.name):
                raise ConfigurationError(f"{source}: {name} cannot be used in a flag: use letters and digits")
            if controller.name in taken:
                owner = taken[controller.name]
                raise ConfigurationError(f"{source}: admission controller {name} is already {owner}")
            taken[controller.name] = f"that of {source}"
            found.append((controller, entry_point.value))
    return found


def _may_have_entry_points() -> bool:
    """Whether a package may have entry points of the group.

    ``importlib.metadata`` takes 40 ms to import and to ask, a tenth of the start of ``pratique review``; this 3.
    """
    if any(hasattr(finder, "find_distributions") for finder in sys.meta_path if finder is not PathFinder):
        return True
    return any(_has_entry_points(path or ".") for path in sys.path)


_METADATA = (".dist-info", ".egg-info", ".egg")
_GROUP_HEADER = f"[{ENTRY_POINT_GROUP}]".encode()


def _has_entry_points(folder: str) -> bool:
    """Whether packages in a folder of ``sys.path`` have them; of an archive there, others know."""
    try:
        with os.scandir(folder) as entries:
            return any(_names_group(entry) for entry in entries if entry.name.lower().endswith(_METADATA))
    except OSError as error:
        return isinstance(error, NotADirectoryError)


def _names_group(metadata: os.DirEntry[str]) -> bool:
    """Whether a package's metadata names the group; an egg, which may be an archive, is left to others to read."""
    if metadata.name.lower().endswith(".egg"):
        return True
    try:
        return _GROUP_HEADER in Path(metadata.path, "entry_points.txt").read_bytes()
    except OSError:
        return False


def _load_controllers(entry_point: EntryPoint, source: str) -> tuple[Controller, ...]:
    try:
        loaded = entry_point.load()
        found = (loaded,) if isinstance(loaded, Controller) else tuple(loaded)
    except Exception as error:  # third-party code can raise anything, and start-up must name the controller
        raise ConfigurationError(f"{source}: {type(error).__name__}: {error}") from error
    for controller in found:
        if not isinstance(controller, Controller):
            raise ConfigurationError(f"{source}: expected a Controller, got {type(controller).__name__}")
    return found


def _repeated_names(flag: str, names: Sequence[str]) -> list[str]:
    repeated = dict.fromkeys(name for name in names if names.count(name) > 1)
    return [f"{flag} plugin {go_quoted(name)} is given twice" for name in repeated]
