"""Hosted controllers: controllers that have their settings and are ready to run."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import msgspec

from pratique.admission.controllers import Controller, Handlers, Phase
from pratique.apimachinery.decoding import StrictDecodingError, decode_strictly
from pratique.apimachinery.errors import ConfigurationError
from pratique.apimachinery.statuses import go_quoted

if TYPE_CHECKING:
    from pratique.apimachinery.json_values import JSON


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
