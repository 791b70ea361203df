"""Probes and lifecycle handlers of containers.

Source: ``validateProbe``, ``validateHandler`` and ``validateLifecycle`` of ``pkg/apis/core/validation/validation.go``.
"""

from __future__ import annotations

from collections.abc import Mapping

from pratique.apimachinery.field_errors import (
    FieldError,
    FieldPath,
    forbidden,
    invalid,
    not_supported,
    required,
)
from pratique.apimachinery.json_values import JSONObject
from pratique.apimachinery.patterns import pattern
from pratique.registry.validation.addresses import validate_port_or_name
from pratique.registry.validation.metadata import validate_nonnegative

_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")
_SCHEMES, _PROTOCOLS = ("HTTP", "HTTPS"), ("HTTP1", "HTTP2")
_GRPC_MODES = ("Plaintext", "TLS")
_HEADER = pattern("[-A-Za-z0-9]+")
_HEADER_MESSAGE = (
    "a valid HTTP header must consist of alphanumeric characters or '-'"
    f" (e.g. 'X-Header-Name', regex used for validation is '{_HEADER.pattern}')"
)
_SECONDS = (
    "initialDelaySeconds",
    "timeoutSeconds",
    "periodSeconds",
    "successThreshold",
    "failureThreshold",
)


def validate_probes(container: JSONObject, grace: int | None, path: FieldPath) -> list[FieldError]:
    """Validate all probes of a container, in the API server's order."""
    errors = []
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        probe = container.get(name)
        if probe is None:
            continue
        place = path / name
        errors += _validate_probe(probe, grace, place)
        if name == "readinessProbe":
            seconds = probe.get("terminationGracePeriodSeconds")
            if seconds is not None:
                detail = "must not be set for readinessProbes"
                errors.append(invalid(place / "terminationGracePeriodSeconds", seconds, detail))
        elif probe.get("successThreshold") != 1:
            threshold = probe.get("successThreshold", 0)
            errors.append(invalid(place / "successThreshold", threshold, "must be 1"))
    return errors


def _validate_probe(probe: JSONObject, grace: int | None, path: FieldPath) -> list[FieldError]:
    errors = _validate_handler(probe, grace, path)
    for name in _SECONDS:
        if (value := probe.get(name)) is not None and value < 0:
            errors += validate_nonnegative(value, path / name)
    seconds = probe.get("terminationGracePeriodSeconds")
    if seconds is not None and seconds <= 0:
        errors.append(invalid(path / "terminationGracePeriodSeconds", seconds, "must be greater than 0"))
    return errors


_SIGNALS: Mapping[str, tuple[str, ...]] = {
    "linux": tuple(
        sorted(
            {
                *(
                    f"SIG{name}"
                    for name in [
                        "ABRT",
                        "ALRM",
                        "BUS",
                        "CHLD",
                        "CLD",
                        "CONT",
                        "FPE",
                        "HUP",
                        "ILL",
                        "INT",
                        "IO",
                        "IOT",
                        "KILL",
                        "PIPE",
                        "POLL",
                        "PROF",
                        "PWR",
                        "QUIT",
                        "SEGV",
                        "STKFLT",
                        "STOP",
                        "SYS",
                        "TERM",
                        "TRAP",
                        "TSTP",
                        "TTIN",
                        "TTOU",
                        "URG",
                        "USR1",
                        "USR2",
                        "VTALRM",
                        "WINCH",
                        "XCPU",
                        "XFSZ",
                        "RTMIN",
                        "RTMAX",
                    ]
                ),
                *(f"SIGRTMIN+{number}" for number in range(1, 16)),
                *(f"SIGRTMAX-{number}" for number in range(1, 15)),
            }
        )
    ),
    "windows": ("SIGKILL", "SIGTERM"),
}
"""The signals that stop a container, by operating system."""


def validate_lifecycle(
    lifecycle: JSONObject, grace: int | None, os_name: str | None, path: FieldPath
) -> list[FieldError]:
    """Validate what runs when a container starts and stops, and what stops it."""
    errors = []
    for name in ("postStart", "preStop"):
        handler = lifecycle.get(name)
        if handler is not None:
            errors += _validate_handler(handler, grace, path / name)
    if (signal := lifecycle.get("stopSignal")) is not None:
        errors += _validate_signal(signal, os_name, path / "stopSignal")
    return errors


def _validate_signal(signal: str, os_name: str | None, path: FieldPath) -> list[FieldError]:
    if os_name is None:
        return [forbidden(path, "may not be set for containers with empty `spec.os.name`")]
    known = _SIGNALS.get(os_name)
    return [] if known is None or signal in known else [not_supported(path, signal, known)]


def _validate_handler(handler: JSONObject, grace: int | None, path: FieldPath) -> list[FieldError]:
    given = [name for name in _HANDLERS if name in handler and handler[name] is not None]
    if not given:
        return [required(path, "must specify a handler type")]
    first, *others = given
    errors = _validate_action(first, handler[first], grace, path / first)
    return errors + [forbidden(path / name, "may not specify more than 1 handler type") for name in others]


def _validate_action(name: str, action: JSONObject, grace: int | None, path: FieldPath) -> list[FieldError]:
    match name:
        case "exec":
            return [] if action.get("command") else [required(path / "command")]
        case "httpGet":
            return _validate_http(action, path)
        case "sleep":
            seconds = action.get("seconds", 0)
            if grace is None or 0 <= seconds <= grace:
                return []
            detail = f"must be non-negative and less than terminationGracePeriodSeconds ({grace})"
            return [invalid(path, seconds, detail)]
        case "grpc":
            errors, mode = validate_port_or_name(action.get("port", 0), path / "port"), action.get("mode")
            is_known = mode is None or mode in _GRPC_MODES
            return errors if is_known else [*errors, not_supported(path / "mode", mode, _GRPC_MODES)]
        case _:
            return validate_port_or_name(action.get("port", 0), path / "port")


def _validate_http(action: JSONObject, path: FieldPath) -> list[FieldError]:
    errors = [] if action.get("path") else [required(path / "path")]
    errors += validate_port_or_name(action.get("port", 0), path / "port")
    scheme = action.get("scheme", "")
    if scheme not in _SCHEMES:
        errors.append(not_supported(path / "scheme", scheme, _SCHEMES))
    if headers := action.get("httpHeaders"):
        errors += [
            invalid(path / "httpHeaders", header.get("name", ""), _HEADER_MESSAGE)
            for header in headers
            if not _HEADER.fullmatch(header.get("name", ""))
        ]
    protocol = action.get("protocol")
    return errors if protocol is None else errors + _validate_protocol(protocol, action, path)


def _validate_protocol(protocol: str, action: JSONObject, path: FieldPath) -> list[FieldError]:
    if protocol not in _PROTOCOLS:
        return [not_supported(path / "protocol", protocol, _PROTOCOLS)]
    host = action.get("host", "")
    if protocol == "HTTP2" and action.get("scheme", "") != "HTTP":
        return [invalid(path / "protocol", protocol, "is only supported with HTTP (H2C)")]
    if protocol == "HTTP2" and host:
        return [invalid(path / "host", host, 'must be empty when `protocol` is "HTTP2"')]
    return []
