"""Options made from the settings of a service, so that each flag's default is written once."""

from __future__ import annotations

import dataclasses
import enum
import functools
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import click

from pratique.configuration.settings import ChainSettings, Isolation
from pratique_cli.chain_options import chain_flags
from pratique_cli.options import PORT, ByteCount, EnumValue, ExistingPath, NameList, Number, WholeNumber, flag
from pratique_cli.supervisor import until_stdin_closes_flag
from pratique_frontdoor.settings import CallKind, FrontDoorSettings

_TYPES_BY_ANNOTATION: Mapping[str, click.ParamType[Any]] = {
    "str": click.STRING,
    "int": WholeNumber(min=1),
    "float": Number(min=0),
    "Path | None": ExistingPath(folders=False),
    "tuple[str, ...]": NameList(),
    "Isolation": EnumValue(Isolation),
    "CallKind": EnumValue(CallKind),
}
"""By annotation, as the settings' files write it."""

RECORD_TYPES: Mapping[str, click.ParamType[Any]] = {
    "record": click.Path(dir_okay=False, path_type=Path),
    "record_max_bytes": ByteCount(),
    "record_files": WholeNumber(1, 1000),
    "record_max_review_bytes": ByteCount(),
}
"""By field, of what is recorded."""

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
    """Add the chain flags and one flag for each setting; the command gets them as one ``settings``.

    Args:
        settings: The service's settings: a dataclass with a ``chain``.
        helps: What each flag's help says, by field.
        names: Flags that are not spelled as their field, by field.
    """
    fields = {field.name: field for field in dataclasses.fields(settings)}

    def decorate(callback: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(callback)
        def gather(chain: ChainSettings, **values: Any) -> Any:
            return callback(settings(chain=chain, **values))

        flags = [setting_flag(fields[name], text, names.get(name)) for name, text in helps.items()]
        return functools.reduce(
            lambda command, add: add(command), reversed(flags), until_stdin_closes_flag(chain_flags(gather))
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
    if isinstance(default, tuple):
        return ",".join(default) or False
    return default not in {None, ""}


SERVER_HELPS = MappingProxyType(
    {
        "host": "Address to listen on.",
        "port": "Port to listen on; 0 picks a free one.",
        "tls_cert_file": "Certificate chain in PEM, own certificate first. With the key, only TLS is served.",
        "tls_private_key_file": "Its private key in PEM. Both files are read again when they change.",
        "client_ca_file": "Authorities in PEM: only clients with a certificate of theirs are let in.",
        "client_allowed_names": "Clients that may call, by common name, DNS name or URI; all, if not given.",
        "max_message_bytes": "The longest message, both ways.",
        "max_concurrent_calls": "Calls at a time; more are refused with RESOURCE_EXHAUSTED.",
        "max_connection_age_seconds": "How long a connection lives before its client is to make a new one;"
        " that is how clients other than the front door find replicas that came later.",
        "metrics_host": "Address on which metrics are shown.",
        "metrics_port": "Port for GET /metrics; 0 picks a free one and logs it. No metrics, if not given.",
        "isolation": "Where controllers of other packages run: a process each, or threads of the service.",
        "drain_seconds": "How long calls are still taken after the first signal to stop.",
        "grace_seconds": "How long calls in flight may take to finish after that.",
    }
)


RECORD_HELPS = MappingProxyType(
    {
        "record": "A file to which reviews and decisions are written, secrets redacted: docs/record-and-replay.md.",
        "record_max_bytes": "The size at which the recording goes on in another file, such as 16MiB.",
        "record_files": "How many files it has at most: FILE, FILE.1, …",
        "record_max_review_bytes": "Of reviews with larger objects the objects are left out.",
    }
)
DECISION_LOG_HELPS = MappingProxyType(
    {
        "decision_log": "A file that gets one line for each decision, chained by hashes: docs/decision-log.md.",
        "decision_log_key": "A file with a key for the chain, so that nobody without it can forge one.",
        "decision_log_max_bytes": "The size at which the log goes on in another file, such as 16MiB.",
        "decision_log_files": "How many files it has at most: FILE, FILE.1, …; 0 keeps them all.",
        "decision_log_required": "Answer 503 to reviews while the log cannot be written.",
    }
)
BREAKER_HELPS = MappingProxyType(
    {
        "webhook_breaker_failures": "Calls in a row without an answer after which a webhook is not called; 0: never.",
        "webhook_breaker_seconds": "For how long it is not called then; failed trials double it, up to 8 times.",
    }
)
FRONT_DOOR_HELPS = MappingProxyType({**RECORD_HELPS, **DECISION_LOG_HELPS, **BREAKER_HELPS})
"""What the help says, by field of the front door's settings."""

_FLAG_GROUPS: tuple[Mapping[str, str], ...] = (RECORD_HELPS, DECISION_LOG_HELPS, BREAKER_HELPS)
"""Flags that mean something together: the first of each says whether there is anything to do."""


def front_door_flags(callback: Callable[..., Any]) -> Callable[..., Any]:
    """Add the flags to a command; it gets them as ``front_door``, the arguments that give them again."""
    fields = {field.name: field for field in dataclasses.fields(FrontDoorSettings)}

    @functools.wraps(callback)
    def gather(**values: Any) -> Any:
        given = {name: values.pop(name) for name in FRONT_DOOR_HELPS}
        return callback(front_door=tuple(_given_arguments(given)), **values)

    flags = [setting_flag(fields[name], text) for name, text in FRONT_DOOR_HELPS.items()]
    return functools.reduce(lambda command, add: add(command), reversed(flags), gather)


def _given_arguments(given: Mapping[str, Any]) -> Iterator[str]:
    """Write the values as the flags that give them; none of a group whose first says that there is nothing to do."""
    for group in _FLAG_GROUPS:
        if not given[next(iter(group))]:
            continue
        for name in group:
            value, flag = given[name], f"--{name.replace('_', '-')}"
            if value is True:
                yield flag
            elif value is not None and value is not False:
                yield from (flag, str(value))
