"""Options made of a service's settings, so that defaults are written once."""

from __future__ import annotations

import dataclasses
import enum
import functools
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import click

from frontdoor.transports.hosting_services import CallKind
from pratique.configuration.settings import Isolation
from pratique_cli.chain_options import chain_flags
from pratique_cli.options import PORT, ByteCount, ExistingPath, EnumValue, NameList, Number, WholeNumber, flag
from pratique_cli.stack.subprocesses import until_stdin_closes_flag

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pratique.configuration.settings import ChainSettings

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
