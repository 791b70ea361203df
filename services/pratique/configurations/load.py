"""Webhook configurations from files: read, decoded strictly, defaulted, checked and put in order."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from pratique.configurations.decoding import decode_configuration
from pratique.configurations.defaults import apply_defaults
from pratique.configurations.expression_checks import check_match_condition
from pratique.configurations.problems import DocumentError, describe, from_field_errors
from pratique.configurations.static_validations import validate_static
from pratique.configurations.validations import strictness_of, validate_configuration
from pratique.configurations.webhooks import GROUP, ConfigurationKind, WebhookConfiguration
from pratique.documents import list_files, read_documents, read_file, unwrap_lists
from pratique.errors import ConfigurationError, InputError
from pratique.field_errors import ROOT
from pratique.statuses import go_quoted
from pratique.strict_decoding import Problem, StrictDecodingError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from pratique.json_values import JSONObject
    from pratique.source_documents import SourceDocument

_VERSIONS = (f"{GROUP}/v1", f"{GROUP}/v1beta1")
_KINDS = frozenset(kind.value for kind in ConfigurationKind)
_POLICIES = frozenset(
    {
        "MutatingAdmissionPolicy",
        "MutatingAdmissionPolicyBinding",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
    }
)
_SUPPORTED = (
    "supported are MutatingWebhookConfiguration and ValidatingWebhookConfiguration "
    f"of {_VERSIONS[0]} and v1beta1"
)


@dataclasses.dataclass(frozen=True, slots=True)
class Configurations:
    """All webhook configurations, in the order in which they are called."""

    mutating: tuple[WebhookConfiguration, ...] = ()
    validating: tuple[WebhookConfiguration, ...] = ()


def load_configurations(paths: Sequence[Path | str]) -> Configurations:
    """Read the webhook configurations of files and folders.

    They are in the order of their names, byte by byte, those named ``….static.k8s.io`` before the others, as in
    ``k8s.io/apiserver/pkg/admission/plugin/webhook/generic/composite_webhook_source.go``.

    Args:
        paths: Files and folders. Each must hold something, and nothing but webhook configurations.

    Raises:
        ConfigurationError: something is wrong. The text has a line for everything that is wrong anywhere.
    """
    problems: list[str] = []
    loaded: list[WebhookConfiguration] = []
    for document in _read_all(paths, problems):
        try:
            configuration = _load(document)
            _check_new(configuration, loaded)
            loaded.append(configuration)
        except (DocumentError, StrictDecodingError) as error:
            problems += describe(document, error.problems)
    if problems:
        raise ConfigurationError("\n".join(problems))
    return Configurations(
        _in_order(loaded, ConfigurationKind.MUTATING), _in_order(loaded, ConfigurationKind.VALIDATING)
    )


def _read_all(paths: Iterable[Path | str], problems: list[str]) -> Iterator[SourceDocument]:
    for path in paths:
        try:
            files = list_files(path)
        except InputError as error:
            problems.append(str(error))
            continue
        for file in files:
            # A file of a folder may be empty; one that was named itself holds something.
            read = read_documents if file == str(path) else read_file
            try:
                yield from unwrap_lists(read(file, unique_keys=True))
            except InputError as error:
                problems.append(str(error))


def _load(document: SourceDocument) -> WebhookConfiguration:
    if message := _unsupported(document.data):
        raise DocumentError([Problem(ROOT / "kind", message)])
    decoded = apply_defaults(decode_configuration(document.data))
    errors = validate_configuration(decoded, strictness_of(decoded.version, check_match_condition))
    errors += validate_static(decoded)
    if errors:
        raise from_field_errors(errors)
    kind = ConfigurationKind(decoded.kind)
    return WebhookConfiguration(kind, decoded.metadata.name, decoded.webhooks, document)


def _unsupported(data: JSONObject) -> str:
    """Say why this is no webhook configuration; empty where it is one."""
    kind, version = data.get("kind"), data.get("apiVersion")
    if not isinstance(kind, str) or not kind:
        return f"Object 'Kind' is missing; {_SUPPORTED}"
    if not isinstance(version, str) or not version:
        return f"Object 'apiVersion' is missing; {_SUPPORTED}"
    if kind in _POLICIES and version.startswith(f"{GROUP}/"):
        return (
            "this version of Pratique does not run policies; without it, what it refuses would be let through"
        )
    if kind == "AdmissionConfiguration":
        return "belongs to --admission-control-config-file"
    if kind not in _KINDS or version not in _VERSIONS:
        return f"no kind {go_quoted(kind)} is registered for version {go_quoted(version)}; {_SUPPORTED}"
    return ""


def _check_new(configuration: WebhookConfiguration, loaded: Iterable[WebhookConfiguration]) -> None:
    for other in loaded:
        if (other.kind, other.name) == (configuration.kind, configuration.name):
            message = (
                f"duplicate name {go_quoted(other.name)} found in file {_file(configuration)} "
                f"(previously seen in {_file(other)})"
            )
            raise DocumentError([Problem(ROOT / "metadata" / "name", message)])


def _file(configuration: WebhookConfiguration) -> str:
    return go_quoted(configuration.source.file if configuration.source else "")


def _in_order(
    loaded: Iterable[WebhookConfiguration], kind: ConfigurationKind
) -> tuple[WebhookConfiguration, ...]:
    of_kind = (configuration for configuration in loaded if configuration.kind is kind)
    return tuple(sorted(of_kind, key=lambda one: (not one.is_static, one.name.encode())))
