"""Load webhook configurations and policies from files: read, decode strictly, default and validate them.

Source: ``k8s.io/apiserver/pkg/admission/plugin/manifest/loader``, for their order and the errors of static manifests.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import msgspec

from pratique.apimachinery.decoding import DecodingProblem, StrictDecodingError, decode_strictly
from pratique.apimachinery.documents import read_objects
from pratique.apimachinery.errors import ConfigurationError
from pratique.apimachinery.field_errors import ROOT, FieldError
from pratique.apimachinery.json_values import JSONObject, member
from pratique.apimachinery.source_documents import SourceDocument, unwrap_lists
from pratique.apimachinery.statuses import aggregate, go_quoted
from pratique.configuration.admissionregistration import (
    GROUP,
    POLICY_DOCUMENTS,
    MutatingAdmissionPolicy,
    MutatingAdmissionPolicySpec,
    PolicyBindingSpec,
    PolicyConfiguration,
    PolicyKind,
    PolicySpec,
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBindingSpec,
    ValidatingAdmissionPolicySpec,
    WebhookConfiguration,
    WebhookConfigurationKind,
    apply_policy_defaults,
    apply_webhook_defaults,
    decode_webhook_configuration,
)
from pratique.configuration.mutation_allow_lists import (
    AllowListKind,
    MutationAllowList,
    MutationAllowListDocument,
    validate_allow_list,
)
from pratique.configuration.policy_exceptions import (
    ExceptionKind,
    PolicyException,
    PolicyExceptionDocument,
)
from pratique.configuration.policy_references import API_VERSION, find_overlaps
from pratique.configuration.policy_rollouts import (
    PolicyRollout,
    PolicyRolloutDocument,
    RolloutKind,
    validate_policy_rollout,
)


class DocumentError(ValueError):
    """A document is invalid."""

    def __init__(self, problems: Sequence[DecodingProblem]) -> None:
        """Take all problems of the document."""
        super().__init__("; ".join(str(problem) for problem in problems))
        self.problems = tuple(problems)


def to_document_error(errors: Sequence[FieldError]) -> DocumentError:
    """Make the error of a document with invalid fields."""
    return DocumentError([DecodingProblem(error.path, str(error)) for error in errors])


def describe_problems(document: SourceDocument, problems: Sequence[DecodingProblem]) -> list[str]:
    """Describe the problems of a document, a line for each.

    With more than one problem, the first line is the API server's answer, which names all of them.
    """
    kind = member(document.data, "kind")
    name = member(document.data, "metadata", "name")
    subject = " ".join((str(kind), go_quoted(name))) if isinstance(name, str) else str(kind)
    where = f"{document.file}: document {document.index + 1}" + (f": {subject}" if kind else "")
    lines = [f"{where}: {_with_hint(problem)} ({_line(document, problem)})" for problem in problems]
    if len(problems) > 1:
        lines.insert(0, f"{where} is invalid: {aggregate(str(problem) for problem in problems)}")
    return lines


def _with_hint(problem: DecodingProblem) -> str:
    return f"{problem}; {problem.hint}" if problem.hint else str(problem)


def _line(document: SourceDocument, problem: DecodingProblem) -> str:
    return f"line {document.position(problem.path.steps).line}"


class Configurations(msgspec.Struct, frozen=True):
    """Webhook configurations in the order of their calls, policies and bindings, and what Pratique adds to them."""

    mutating: tuple[WebhookConfiguration, ...] = ()
    validating: tuple[WebhookConfiguration, ...] = ()
    mutating_policies: tuple[PolicyConfiguration[MutatingAdmissionPolicySpec], ...] = ()
    mutating_bindings: tuple[PolicyConfiguration[PolicyBindingSpec], ...] = ()
    validating_policies: tuple[PolicyConfiguration[ValidatingAdmissionPolicySpec], ...] = ()
    validating_bindings: tuple[PolicyConfiguration[ValidatingAdmissionPolicyBindingSpec], ...] = ()
    """Bindings of policies that do not exist have no effect, as in a cluster."""
    exceptions: tuple[PolicyException, ...] = ()
    """In the order of their names."""
    rollouts: tuple[PolicyRollout, ...] = ()
    """In the order of their names."""
    allow_lists: tuple[MutationAllowList, ...] = ()
    """In the order of their names."""


_VERSIONS = (f"{GROUP}/v1", f"{GROUP}/v1beta1")
_POLICY_VERSIONS = (*_VERSIONS, f"{GROUP}/v1alpha1")
_KINDS = frozenset(kind.value for kind in WebhookConfigurationKind)
_POLICY_KINDS = frozenset(kind.value for kind in PolicyKind)
_SUPPORTED = (
    "supported are MutatingWebhookConfiguration and ValidatingWebhookConfiguration "
    f"of {_VERSIONS[0]} and v1beta1, policies and their bindings, "
    f"and PolicyException, PolicyRollout and MutationAllowList of {API_VERSION}"
)
_OWN_KINDS = frozenset(
    {ExceptionKind.EXCEPTION.value, RolloutKind.ROLLOUT.value, AllowListKind.ALLOW_LIST.value}
)
"""The kinds that no API server has."""

_OwnDocument: TypeAlias = "PolicyException | PolicyRollout | MutationAllowList"
_Loaded: TypeAlias = (
    "WebhookConfiguration | PolicyConfiguration[PolicySpec | PolicyBindingSpec] | _OwnDocument"
)
_Kind: TypeAlias = "WebhookConfigurationKind | PolicyKind | ExceptionKind | RolloutKind | AllowListKind"
_Own = TypeVar("_Own", PolicyException, PolicyRollout, MutationAllowList)


def is_configuration(data: JSONObject) -> bool:
    """Tell whether an object is, or is meant to be, what :func:`load_configurations` loads, not some other object."""
    kind = data.get("kind")
    group = str(data.get("apiVersion", "")).partition("/")[0]
    groups = {GROUP, API_VERSION.partition("/")[0]}
    return group in groups or kind == "AdmissionConfiguration" or bool(_versions_of(str(kind)))


def load_configurations(
    paths: Sequence[Path | str], further: Iterable[SourceDocument] = ()
) -> Configurations:
    """Load the webhook configurations and policies of files and folders.

    They are sorted by name, byte by byte, with names that end in ``.static.k8s.io`` first, as in
    ``k8s.io/apiserver/pkg/admission/plugin/webhook/generic/composite_webhook_source.go``.

    Args:
        paths: Files and folders. Each must hold documents, and only webhook configurations, policies and bindings.
        further: Documents that were read already, added to those of the files.

    Raises:
        ConfigurationError: something is invalid. The text has a line for each problem in any file.
    """
    problems: list[str] = []
    loaded: dict[tuple[_Kind, str], _Loaded] = {}
    for document in itertools.chain(read_objects(paths, problems, unique_keys=True), unwrap_lists(further)):
        try:
            configuration = _load(document)
            at = configuration.kind, configuration.name
            if (other := loaded.setdefault(at, configuration)) is not configuration:
                raise _duplicate(configuration, other)
        except (DocumentError, StrictDecodingError) as error:
            problems += describe_problems(document, error.problems)
    rollouts = _own(loaded.values(), PolicyRollout)
    allow_lists = _own(loaded.values(), MutationAllowList)
    problems += [*_overlaps(rollouts), *_overlaps(allow_lists)]
    if problems:
        raise ConfigurationError("\n".join(problems))
    return Configurations(
        mutating=_in_order(loaded.values(), WebhookConfigurationKind.MUTATING),
        validating=_in_order(loaded.values(), WebhookConfigurationKind.VALIDATING),
        mutating_policies=_in_order(loaded.values(), PolicyKind.MUTATING),
        mutating_bindings=_in_order(loaded.values(), PolicyKind.MUTATING_BINDING),
        validating_policies=_in_order(loaded.values(), PolicyKind.VALIDATING),
        validating_bindings=_in_order(loaded.values(), PolicyKind.VALIDATING_BINDING),
        exceptions=_own(loaded.values(), PolicyException),
        rollouts=rollouts,
        allow_lists=allow_lists,
    )


def _overlaps(documents: Sequence[PolicyRollout] | Sequence[MutationAllowList]) -> Iterator[str]:
    """Describe what more than one of the objects of a kind names."""
    owners = [(f"{each.kind.value} {go_quoted(each.name)}", each.spec.policies) for each in documents]
    for place, overlap in find_overlaps(owners):
        if (source := documents[place].source) is not None:
            yield from describe_problems(source, to_document_error([overlap]).problems)


def _own(loaded: Iterable[_Loaded], kind: type[_Own]) -> tuple[_Own, ...]:
    """Return the objects of a kind of Pratique's own, in the order of their names."""
    found = (document for document in loaded if isinstance(document, kind))
    return tuple(sorted(found, key=lambda document: document.name.encode()))


def _load(document: SourceDocument) -> _Loaded:
    if message := _unsupported(document.data):
        raise DocumentError([DecodingProblem(ROOT / "kind", message)])
    if document.data["kind"] in _POLICY_KINDS:
        return _load_policy(document)
    if document.data["kind"] == ExceptionKind.EXCEPTION.value:
        return _load_exception(document)
    if document.data["kind"] == RolloutKind.ROLLOUT.value:
        return _load_rollout(document)
    if document.data["kind"] == AllowListKind.ALLOW_LIST.value:
        return _load_allow_list(document)
    # Here and below, because services without --config validate nothing: 12 ms of their start.
    from pratique.configuration import webhook_validation  # noqa: PLC0415
    from pratique.configuration.expression_validation import check_match_condition  # noqa: PLC0415

    decoded = apply_webhook_defaults(decode_webhook_configuration(document.data))
    options = webhook_validation.validation_options(decoded.version, check_match_condition)
    errors = webhook_validation.validate_configuration(decoded, options)
    errors += webhook_validation.validate_static(decoded)
    if errors:
        raise to_document_error(errors)
    kind = WebhookConfigurationKind(decoded.kind)
    return WebhookConfiguration(kind, decoded.metadata.name, decoded.webhooks, document)


def _load_policy(document: SourceDocument) -> PolicyConfiguration[PolicySpec | PolicyBindingSpec]:
    from pratique.configuration.expression_validation import PolicyExpressionChecker  # noqa: PLC0415
    from pratique.configuration.policy_validation import validate_binding, validate_policy  # noqa: PLC0415
    from pratique.configuration.webhook_validation import validate_static_policy  # noqa: PLC0415

    kind = PolicyKind(document.data["kind"])
    decoded = apply_policy_defaults(decode_strictly(document.data, POLICY_DOCUMENTS[kind]))
    if isinstance(decoded, ValidatingAdmissionPolicy | MutatingAdmissionPolicy):
        errors = validate_policy(decoded, PolicyExpressionChecker(decoded))
    else:
        errors = validate_binding(decoded)
    errors += validate_static_policy(decoded)
    if errors:
        raise to_document_error(errors)
    return PolicyConfiguration(kind, decoded.metadata.name, decoded.spec, document)


def _load_exception(document: SourceDocument) -> PolicyException:
    from pratique.configuration.exception_validation import validate_policy_exception  # noqa: PLC0415

    decoded = decode_strictly(document.data, PolicyExceptionDocument)
    if errors := validate_policy_exception(decoded):
        raise to_document_error(errors)
    return PolicyException(decoded.metadata.name, decoded.spec, document)


def _load_rollout(document: SourceDocument) -> PolicyRollout:
    decoded = decode_strictly(document.data, PolicyRolloutDocument)
    if errors := validate_policy_rollout(decoded):
        raise to_document_error(errors)
    return PolicyRollout(decoded.metadata.name, decoded.spec, document)


def _load_allow_list(document: SourceDocument) -> MutationAllowList:
    decoded = decode_strictly(document.data, MutationAllowListDocument)
    if errors := validate_allow_list(decoded):
        raise to_document_error(errors)
    return MutationAllowList(decoded.metadata.name, decoded.spec, document)


def _unsupported(data: JSONObject) -> str:
    """Why this is neither a webhook configuration nor a policy; empty if it is one."""
    kind, version = data.get("kind"), data.get("apiVersion")
    if not isinstance(kind, str) or not kind:
        return f"Object 'Kind' is missing; {_SUPPORTED}"
    if not isinstance(version, str) or not version:
        return f"Object 'apiVersion' is missing; {_SUPPORTED}"
    if kind == "AdmissionConfiguration":
        return "belongs to --admission-control-config-file"
    if version not in _versions_of(kind):
        return f"no kind {go_quoted(kind)} is registered for version {go_quoted(version)}; {_SUPPORTED}"
    return ""


def _versions_of(kind: str) -> tuple[str, ...]:
    if kind in _OWN_KINDS:
        return (API_VERSION,)
    return _VERSIONS if kind in _KINDS else _POLICY_VERSIONS if kind in _POLICY_KINDS else ()


def _duplicate(configuration: _Loaded, other: _Loaded) -> DocumentError:
    message = (
        f"duplicate name {go_quoted(other.name)} found in file {_file(configuration)} "
        f"(previously seen in {_file(other)})"
    )
    return DocumentError([DecodingProblem(ROOT / "metadata" / "name", message)])


def _file(configuration: _Loaded) -> str:
    return go_quoted(configuration.source.file if configuration.source else "")


def _in_order(loaded: Iterable[_Loaded], kind: WebhookConfigurationKind | PolicyKind) -> tuple[Any, ...]:
    of_kind = (
        configuration
        for configuration in loaded
        if configuration.kind is kind
        and not isinstance(configuration, PolicyException | PolicyRollout | MutationAllowList)
    )
    return tuple(
        sorted(of_kind, key=lambda configuration: (not configuration.is_static, configuration.name.encode()))
    )
