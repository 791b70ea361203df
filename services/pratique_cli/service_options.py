"""Options made from the settings of a service, so that each flag's default is written once."""

from __future__ import annotations

import dataclasses
import enum
import functools
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import click

from pratique.admission.controllers import MAX_TIMEOUT_SECONDS
from pratique.configuration.settings import ChainSettings, Isolation, OnOff
from pratique_cli.chain_options import chain_flags, live_flags
from pratique_cli.options import (
    PORT,
    ByteCount,
    EnumValue,
    ExistingPath,
    NameList,
    Number,
    Seconds,
    WholeNumber,
    flag,
)
from pratique_cli.supervisor import until_stdin_closes_flag
from pratique_frontdoor.settings import NEVER_HEDGED, CallKind, FanOutLimit, FrontDoorSettings, HedgeDelay


class ShareLimit(click.ParamType[FanOutLimit]):
    """A number of shares, ``auto`` or ``off``."""

    name = "auto|off|N"

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        """Show the values as they are typed."""
        del param, ctx
        return self.name

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> FanOutLimit:
        """Parse the limit."""
        if isinstance(value, FanOutLimit):
            return value
        if value in {"auto", "off"}:
            return FanOutLimit(None if value == "auto" else 1)
        if not re.fullmatch("[1-9][0-9]{0,2}", str(value), re.ASCII):
            self.fail(f"{value!r} is not auto, off, or a whole number from 1 to 999", param, ctx)
        return FanOutLimit(int(value))


class HedgeTime(click.ParamType[HedgeDelay]):
    """A duration of 1 ms to 30 s, ``p95`` or ``off``."""

    name = "off|p95|duration"

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        """Show the values as they are typed."""
        del param, ctx
        return self.name

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> HedgeDelay:
        """Parse the time."""
        if isinstance(value, HedgeDelay):
            return value
        if value in {"off", "p95"}:
            return NEVER_HEDGED if value == "off" else HedgeDelay(None)
        try:
            seconds = Seconds().convert(value, None, None)
        except click.BadParameter:
            self.fail(f"{value!r} is not off, p95, or a duration such as 50ms", param, ctx)
        if not _LEAST_HEDGE_SECONDS <= seconds <= MAX_TIMEOUT_SECONDS:
            self.fail(f"{value!r} is not between 1ms and 30s, the longest timeout of a review", param, ctx)
        return HedgeDelay(seconds)


_LEAST_HEDGE_SECONDS = 0.001
"""What a hop takes: every call would be made twice."""

_TYPES_BY_ANNOTATION: Mapping[str, click.ParamType[Any]] = {
    "str": click.STRING,
    "int": WholeNumber(min=1),
    "float": Number(min=0),
    "Path | None": ExistingPath(folders=False),
    "tuple[str, ...]": NameList(),
    "Isolation": EnumValue(Isolation),
    "CallKind": EnumValue(CallKind),
    "OnOff": EnumValue(OnOff),
    "FanOutLimit": ShareLimit(),
    "HedgeDelay": HedgeTime(),
    "float | None": Seconds(),
}
"""Types by the annotation of a setting."""

RECORD_TYPES: Mapping[str, click.ParamType[Any]] = {
    "record": click.Path(dir_okay=False, path_type=Path),
    "record_max_bytes": ByteCount(),
    "record_files": WholeNumber(1, 1000),
    "record_max_review_bytes": ByteCount(),
}
"""Types by field, for the settings of recordings."""

_LEAST_IN_FLIGHT = 64 * 1024
"""What each review counts as at least, in bytes: with less, every review would be one too many."""
_ZERO_IS_OFF = (
    "reserved_in_flight_bytes",
    "max_caller_requests",
    "max_caller_bytes",
    "max_address_requests",
    "max_address_bytes",
    "max_address_connections",
    "max_unauthenticated_bytes",
)
_TYPES_BY_FIELD: Mapping[str, click.ParamType[Any]] = {
    "port": PORT,
    "metrics_port": PORT,
    "max_in_flight_bytes": WholeNumber(min=_LEAST_IN_FLIGHT),
    "webhook_breaker_failures": WholeNumber(0, 1_000_000),
    "decision_log": click.Path(dir_okay=False, path_type=Path),
    "decision_log_key": ExistingPath(folders=False),
    "decision_log_max_bytes": ByteCount(),
    "decision_log_files": WholeNumber(0, 100_000),
    **RECORD_TYPES,
    **dict.fromkeys(_ZERO_IS_OFF, WholeNumber(min=0)),
}


def settings_flags(
    settings: type[Any], helps: Mapping[str, str], names: Mapping[str, str]
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add the chain flags and one flag for each setting; the command gets them as ``settings``.

    Args:
        settings: The service's settings: a dataclass with a ``chain``.
        helps: The help of each flag, by field.
        names: The names of flags that differ from their field, by field.
    """
    fields = {field.name: field for field in dataclasses.fields(settings)}

    def decorate(callback: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(callback)
        def gather(chain: ChainSettings, **values: Any) -> Any:
            return callback(settings(chain=chain, **values))

        flags = [setting_flag(fields[name], text, names.get(name)) for name, text in helps.items()]
        return functools.reduce(
            lambda command, add: add(command),
            reversed(flags),
            until_stdin_closes_flag(chain_flags(live_flags(gather))),
        )

    return decorate


def setting_flag(field: dataclasses.Field[Any], text: str, name: str | None = None) -> Callable[..., Any]:
    """Make the flag of one setting."""
    spelled = f"--{name or field.name.replace('_', '-')}"
    if field.type == "bool":
        return flag(spelled, field.name, is_flag=True, default=field.default, help=text)
    return flag(
        spelled,
        field.name,
        type=_TYPES_BY_FIELD.get(field.name) or _TYPES_BY_ANNOTATION[str(field.type)],
        default=str(field.default) if isinstance(field.default, enum.StrEnum) else field.default,
        show_default=_default_text(field.default),
        help=text,
    )


def _default_text(default: Any) -> str | bool:
    if isinstance(default, FanOutLimit | HedgeDelay):
        return str(default)
    if isinstance(default, tuple):
        return ",".join(default) or False
    return default not in {None, ""}


LISTENER_HELPS = MappingProxyType(
    {
        "host": "Address to listen on.",
        "port": "Port to listen on; 0 picks a free one.",
        "tls_cert_file": "Certificate chain in PEM, own certificate first. With the key, only TLS is served.",
        "tls_private_key_file": "Its private key in PEM. Both files are read again when they change.",
        "client_ca_file": "CA certificates in PEM: clients with a certificate signed by one of them may call.",
        "client_allowed_names": "Which of those may call, by common name, DNS name or URI; all by default.",
    }
)
"""The help of the flags that every service has, by field of its settings."""
SERVER_HELPS = MappingProxyType(
    {
        **LISTENER_HELPS,
        "checks_key_file": "A key shared with the front doors, whose checks of large objects are then not repeated.",
        "max_message_bytes": "The longest message, in both directions.",
        "max_concurrent_calls": "Concurrent calls; more are refused with RESOURCE_EXHAUSTED.",
        "max_connection_age_seconds": "The lifetime of a connection, after which its client reconnects;"
        " this is how clients other than the front door find new replicas.",
        "metrics_host": "Address to serve metrics on.",
        "metrics_port": "Port for GET /metrics; 0 picks a free one and logs it. No metrics by default.",
        "isolation": "Where third-party controllers run: each in its own process, or in threads of the service.",
        "drain_seconds": "How long to accept calls after the first signal to stop.",
        "grace_seconds": "How long calls in flight may take after that.",
    }
)


RECORD_HELPS = MappingProxyType(
    {
        "record": "Record reviews and decisions in this file, with secrets redacted: docs/record-and-replay.md.",
        "record_max_bytes": "Start a new recording file at this size, such as 16MiB.",
        "record_files": "The most recording files to keep: FILE, FILE.1, …",
        "record_max_review_bytes": "Leave larger objects out of the recording.",
    }
)
DECISION_LOG_HELPS = MappingProxyType(
    {
        "decision_log": "Write one line for each decision to this file, chained by hashes: docs/decision-log.md.",
        "decision_log_key": "A file with the key of the hash chain; without it, writers of the log can forge it.",
        "decision_log_max_bytes": "Start a new log file at this size, such as 16MiB.",
        "decision_log_files": "The most log files to keep: FILE, FILE.1, …; 0 keeps all.",
        "decision_log_required": "Answer reviews once their entries are on the disk, and with 503 if they cannot be.",
    }
)
CONSOLE_HELPS = MappingProxyType(
    {
        "console": "Show the newest decisions, replicas and certificates at /console, to callers who may call:"
        " docs/console.md.",
    }
)
BREAKER_HELPS = MappingProxyType(
    {
        "webhook_breaker_failures": "Stop calling a webhook after this many failed calls in a row; 0 never stops.",
        "webhook_breaker_seconds": "How long to stop calling it; failed trial calls double the time, up to 8 times.",
    }
)
CALL_HELPS = MappingProxyType(
    {
        "validator_fanout": "Divide the validating work of a review among replicas: where that makes it shorter (auto),"
        " never (off), or into N shares.",
        "validator_hedge_after": "When to make an unanswered call on another validator as well: after a duration such"
        " as 50ms, after as long as 95 of 100 calls take (p95), or never (off); at most for a tenth of the calls.",
        "mutator_timeout_seconds": "Time limit of each call to the mutator, such as 2s; by default the review's, and a"
        " call that takes 1 s is made again on another replica.",
        "validator_timeout_seconds": "The same for each call to a validator.",
        "object_validation": "Decode, default and validate objects as an API server does: for APIs that have none.",
    }
)
FRONT_DOOR_HELPS = MappingProxyType(
    {**CALL_HELPS, **RECORD_HELPS, **DECISION_LOG_HELPS, **BREAKER_HELPS, **CONSOLE_HELPS}
)
"""The help of each flag, by field of the front door's settings."""

_FLAG_GROUPS: tuple[Mapping[str, str], ...] = (RECORD_HELPS, DECISION_LOG_HELPS, BREAKER_HELPS, CONSOLE_HELPS)
"""Groups of flags; the first flag of each group turns the others on."""
FLAG_NAMES = MappingProxyType(
    {"mutator_timeout_seconds": "mutator-timeout", "validator_timeout_seconds": "validator-timeout"}
)
"""The names of flags that differ from their field."""


def front_door_flags(callback: Callable[..., Any]) -> Callable[..., Any]:
    """Add the front door's flags to a command, which gets them as ``front_door``: arguments to pass on."""
    fields = {field.name: field for field in dataclasses.fields(FrontDoorSettings)}

    @functools.wraps(callback)
    def gather(**values: Any) -> Any:
        given = {name: values.pop(name) for name in FRONT_DOOR_HELPS}
        return callback(front_door=tuple(_given_arguments(given)), **values)

    flags = [
        setting_flag(fields[name], text, FLAG_NAMES.get(name)) for name, text in FRONT_DOOR_HELPS.items()
    ]
    return functools.reduce(lambda command, add: add(command), reversed(flags), gather)


def _given_arguments(given: Mapping[str, Any]) -> Iterator[str]:
    """Write the values as flags; groups that are off are left out."""
    for name in CALL_HELPS:
        if given[name] not in {None, OnOff.OFF, NEVER_HEDGED}:
            yield from (f"--{FLAG_NAMES.get(name) or name.replace('_', '-')}", str(given[name]))
    for group in _FLAG_GROUPS:
        if not given[next(iter(group))]:
            continue
        for name in group:
            value, flag = given[name], f"--{name.replace('_', '-')}"
            if value is True:
                yield flag
            elif value is not None and value is not False:
                yield from (flag, str(value))
