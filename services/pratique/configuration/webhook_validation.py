"""Validate webhook configurations, and the rules and metadata that policies share, in the API server's words.

Configurations whose names end in ``.static.k8s.io`` have rules of their own.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from pratique.admission.rules import OPERATIONS, SCOPES, Rule
from pratique.apimachinery import names
from pratique.apimachinery.field_errors import (
    ROOT,
    FieldError,
    FieldPath,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
    too_long,
)
from pratique.apimachinery.patterns import pattern
from pratique.apimachinery.selectors import validate_labels, validate_selector
from pratique.apimachinery.statuses import go_quoted
from pratique.apimachinery.urls import Url, parse_url
from pratique.configuration.admissionregistration import (
    GROUP,
    STATIC_SUFFIX,
    ClientConfig,
    MutatingAdmissionPolicy,
    ObjectMeta,
    PolicyBindingDocument,
    PolicyDocument,
    ServiceReference,
    ValidatingAdmissionPolicy,
    Webhook,
    WebhookConfigurationDocument,
)
from pratique.configuration.expression_validation import ExpressionCheck, validate_match_conditions

_MAXIMUM_ANNOTATIONS = 256 * 1024  # bytes of all keys and values together


def validate_metadata(metadata: ObjectMeta, path: FieldPath) -> list[FieldError]:
    """Validate the metadata of a cluster-scoped object whose name is a DNS subdomain."""
    errors = []
    if not metadata.name:
        errors.append(required(path / "name", "name or generateName is required"))
    else:
        messages = names.check_dns1123_subdomain(metadata.name)
        errors += [invalid(path / "name", metadata.name, message) for message in messages]
    if metadata.namespace:
        errors.append(forbidden(path / "namespace", "not allowed on this type"))
    errors += validate_labels(metadata.labels, path / "labels")
    return errors + _validate_annotations(metadata.annotations, path / "annotations")


def _validate_annotations(annotations: Mapping[str, str], path: FieldPath) -> list[FieldError]:
    errors = [
        invalid(path, key, message)
        for key in sorted(annotations)
        for message in names.check_qualified_name(key.lower())
    ]
    size = sum(len(text.encode()) for pair in annotations.items() for text in pair)
    if size > _MAXIMUM_ANNOTATIONS:
        errors.append(too_long(path, _MAXIMUM_ANNOTATIONS))
    return errors


_NOT_SUPPORTED = "is not supported for static manifests"


def validate_static(document: WebhookConfigurationDocument) -> list[FieldError]:
    """Validate what only static manifests must not have; other configurations have no errors here."""
    if not document.metadata.name.endswith(STATIC_SUFFIX):
        return []
    errors = _validate_version(document)
    for index, webhook in enumerate(document.webhooks):
        if webhook.client_config.service is not None:
            path = ROOT / "webhooks" / index / "clientConfig" / "service"
            detail = (
                "clientConfig.service is not supported for static manifests; use clientConfig.url instead"
            )
            errors.append(forbidden(path, detail))
    return errors


def validate_static_policy(document: PolicyDocument | PolicyBindingDocument) -> list[FieldError]:
    """Validate what only static policies and bindings must not have; others have no errors here."""
    if not document.metadata.name.endswith(STATIC_SUFFIX):
        return []
    errors, path = _validate_version(document), ROOT / "spec"
    if isinstance(document, ValidatingAdmissionPolicy | MutatingAdmissionPolicy):
        if document.spec.param_kind is not None:
            errors.append(forbidden(path / "paramKind", f"spec.paramKind {_NOT_SUPPORTED}"))
        return errors
    policy = document.spec.policy_name
    if not policy.endswith(STATIC_SUFFIX):
        errors.append(invalid(path / "policyName", policy, f"must end with {go_quoted(STATIC_SUFFIX)}"))
    if document.spec.param_ref is not None:
        errors.append(forbidden(path / "paramRef", f"spec.paramRef {_NOT_SUPPORTED}"))
    return errors


def _validate_version(
    document: WebhookConfigurationDocument | PolicyDocument | PolicyBindingDocument,
) -> list[FieldError]:
    if document.version == "v1":
        return []
    return [not_supported(ROOT / "apiVersion", document.api_version, (f"{GROUP}/v1",))]


def validate_rule(rule: Rule, path: FieldPath) -> list[FieldError]:
    """Validate a rule."""
    errors = _validate_operations(rule.operations, path / "operations")
    errors += _validate_wildcard(rule.api_groups, path / "apiGroups", "API groups")
    errors += _validate_wildcard(rule.api_versions, path / "apiVersions", "API versions")
    for index, version in enumerate(rule.api_versions):
        if not version:
            errors.append(required(path / "apiVersions" / index))
    errors += _validate_resources(rule.resources, path / "resources")
    if rule.scope is not None and rule.scope not in SCOPES:
        errors.append(not_supported(path / "scope", rule.scope, SCOPES))
    return errors


def _validate_operations(operations: tuple[str, ...], path: FieldPath) -> list[FieldError]:
    errors = [] if operations else [required(path)]
    if len(operations) > 1 and "*" in operations:
        errors.append(invalid(path, operations, "if '*' is present, must not specify other operations"))
    for index, operation in enumerate(operations):
        if operation not in OPERATIONS:
            errors.append(not_supported(path / index, operation, OPERATIONS))
    return errors


def _validate_wildcard(values: tuple[str, ...], path: FieldPath, what: str) -> list[FieldError]:
    if not values:
        return [required(path)]
    if len(values) > 1 and "*" in values:
        return [invalid(path, values, f"if '*' is present, must not specify other {what}")]
    return []


def _validate_resources(resources: tuple[str, ...], path: FieldPath) -> list[FieldError]:
    errors = [] if resources else [required(path)]
    with_every_subresource: set[str] = set()
    with_every_resource: set[str] = set()
    for index, written in enumerate(resources):
        resource, slash, subresource = written.partition("/")
        if not written:
            errors.append(required(path / index))
        if not slash:
            continue
        if resource in with_every_subresource:
            errors.append(_covered_by_wildcard(path / index, written, f"{resource}/*"))
        if subresource in with_every_resource:
            errors.append(_covered_by_wildcard(path / index, written, f"*/{subresource}"))
        if subresource == "*":
            with_every_subresource.add(resource)
        if resource == "*":
            with_every_resource.add(subresource)
    return errors + _validate_resource_wildcards(resources, path)


def _validate_resource_wildcards(resources: tuple[str, ...], path: FieldPath) -> list[FieldError]:
    errors = []
    if len(resources) > 1 and "*/*" in resources:
        errors.append(invalid(path, resources, "if '*/*' is present, must not specify other resources"))
    main = [resource for resource in resources if resource and "/" not in resource]
    if "*" in main and main[-1] != "*":  # the API server looks only at the last one
        detail = "if '*' is present, must not specify other resources without subresources"
        errors.append(invalid(path, resources, detail))
    return errors


def _covered_by_wildcard(path: FieldPath, written: str, wildcard: str) -> FieldError:
    return invalid(path, written, f"if '{wildcard}' is present, must not specify {written}")


GRPC_SCHEMES = frozenset({"grpc", "grpcs"})
"""URL schemes of gRPC services, without and with TLS."""

_HTTPS_FORM = "; desired format: https://host[/path]"
_GRPC_FORM = "; desired format: {scheme}://host:port"
_HOST_NAME = pattern(r"[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_.])?")
_AUTHORITY = pattern(r"(?P<host>\[[^\]]*\]|[^:]*)(?P<port>:[0-9]*)?")


def validate_client_config(
    client_config: ClientConfig, path: FieldPath, *, allows_grpc: bool = True
) -> list[FieldError]:
    """Validate that exactly one of ``url`` and ``service`` is set, and validate that one.

    Args:
        client_config: How to reach a webhook.
        path: Where that stands.
        allows_grpc: Whether a URL may have one of :data:`GRPC_SCHEMES`, which no API server knows.
    """
    url, service = client_config.url, client_config.service
    if url is not None and service is None:
        return _validate_url(url, path / "url", allows_grpc=allows_grpc)
    if service is not None and url is None:
        return _validate_service(service, path / "service")
    return [required(path, "exactly one of url or service is required")]


def _validate_url(text: str, path: FieldPath, *, allows_grpc: bool) -> list[FieldError]:
    try:
        url = parse_url(text)
    except ValueError as error:
        return [required(path, f"url must be a valid URL: {error}{_HTTPS_FORM}")]
    if allows_grpc and url.scheme in GRPC_SCHEMES:
        form = _GRPC_FORM.format(scheme=url.scheme)
        return _validate_extras(url, path, form) + _validate_grpc_authority(url, path, form)
    errors = []
    if url.scheme != "https":
        errors.append(invalid(path, url.scheme, f"'https' is the only allowed URL scheme{_HTTPS_FORM}"))
    return errors + _validate_extras(url, path, _HTTPS_FORM)


def _validate_extras(url: Url, path: FieldPath, form: str) -> list[FieldError]:
    errors = []
    if not url.host:
        errors.append(invalid(path, url.host, f"host must be specified{form}"))
    if url.user is not None:
        errors.append(invalid(path, url.user, "user information is not permitted in the URL"))
    if url.fragment:
        errors.append(invalid(path, url.fragment, "fragments are not permitted in the URL"))
    if url.query:
        errors.append(invalid(path, url.query, "query parameters are not permitted in the URL"))
    return errors


def _validate_grpc_authority(url: Url, path: FieldPath, form: str) -> list[FieldError]:
    errors = []
    if url.path:
        errors.append(invalid(path, url.path, f"paths are not permitted in a {url.scheme} URL{form}"))
    found = _AUTHORITY.fullmatch(url.host)
    host, port = (found["host"], found["port"]) if found else (url.host, None)
    if url.host and not host.startswith("[") and not _HOST_NAME.fullmatch(host):
        errors.append(invalid(path, host, f"host must be a name or an address{form}"))
    number = (port or "").removeprefix(":")
    if not number:
        errors.append(invalid(path, url.host, f"port must be specified{form}"))
    elif len(number) > 5 or names.check_port_number(int(number)):
        detail = f"port is not valid: must be between 1 and 65535, inclusive{form}"
        errors.append(invalid(path, number, detail))
    return errors


def _validate_service(service: ServiceReference, path: FieldPath) -> list[FieldError]:
    # The API server mistakes the one for the other here, and names the field that is there.
    swapped = {"name": service.namespace, "namespace": service.name}
    errors = [required(path / field) for field, value in swapped.items() if not value]
    port = service.port or 0
    if messages := names.check_port_number(port):
        errors.append(invalid(path / "port", port, f"port is not valid: {', '.join(messages)}"))
    return errors + _validate_service_path(service.path or "", path / "path")


def _validate_service_path(written: str, path: FieldPath) -> list[FieldError]:
    if written in {"", "/"}:
        return []
    if written == "//":
        return [invalid(path, written, "segment[0] may not be empty")]
    errors = []
    if not written.startswith("/"):
        errors.append(invalid(path, written, "must start with a '/'"))
    for index, segment in enumerate(written[1:].removesuffix("/").split("/")):
        if not segment:
            errors.append(invalid(path, written, f"segment[{index}] may not be empty"))
            continue
        messages = names.check_dns1123_subdomain(segment)
        errors += [invalid(path, written, f"segment[{index}]: {message}") for message in messages]
    return errors


REVIEW_VERSIONS = ("v1", "v1beta1")
"""The supported versions of AdmissionReview."""
NO_SIDE_EFFECTS = ("None", "NoneOnDryRun")
"""The ``sideEffects`` that v1 allows."""

_SIDE_EFFECTS = ("None", "NoneOnDryRun", "Some", "Unknown")
_CHOICES = (
    ("failure_policy", "failurePolicy", ("Fail", "Ignore")),
    ("match_policy", "matchPolicy", ("Equivalent", "Exact")),
)
_REINVOCATION_POLICIES = ("IfNeeded", "Never")
_MAXIMUM_TIMEOUT_SECONDS = 30


class ValidationOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How strictly to validate. As in the API server, an update may keep what the old object had."""

    require_no_side_effects: bool = True
    """``sideEffects`` must be one of :data:`HARMLESS`."""
    require_known_review_version: bool = True
    """One of :data:`REVIEW_VERSIONS` must be among ``admissionReviewVersions``."""
    require_unique_names: bool = True
    """No two webhooks of a configuration may have one name."""
    allow_invalid_selector_values: bool = False
    """Selectors may contain values that no label can have."""
    ignore_match_conditions: bool = False
    """``matchConditions`` are not validated."""
    allows_grpc: bool = True
    """URLs may have one of :data:`GRPC_SCHEMES`."""
    check_expression: ExpressionCheck | None = None
    """Compiles the expressions of ``matchConditions``; None skips them."""


def validation_options(version: str, check_expression: ExpressionCheck | None = None) -> ValidationOptions:
    """The options for creating a configuration in an API version."""
    strict = version != "v1beta1"
    return ValidationOptions(
        require_no_side_effects=strict, require_unique_names=strict, check_expression=check_expression
    )


def validate_configuration(
    document: WebhookConfigurationDocument, options: ValidationOptions
) -> list[FieldError]:
    """Validate a configuration, before or after defaulting. The errors come in Kubernetes' order."""
    return validate_metadata(document.metadata, ROOT / "metadata") + validate_webhooks(document, options)


def validate_webhooks(document: WebhookConfigurationDocument, options: ValidationOptions) -> list[FieldError]:
    """Validate the webhooks of a configuration."""
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, webhook in enumerate(document.webhooks):
        path = ROOT / "webhooks" / index
        errors += _validate_webhook(webhook, path, options)
        errors += _validate_review_versions(
            webhook.admission_review_versions, path / "admissionReviewVersions", options
        )
        if options.require_unique_names and webhook.name in seen:
            errors.append(duplicate(path / "name", webhook.name))
        if webhook.name:
            seen.add(webhook.name)
    return errors


def _validate_webhook(webhook: Webhook, path: FieldPath, options: ValidationOptions) -> list[FieldError]:
    errors = _validate_full_name(webhook.name, path / "name")
    for index, rule in enumerate(webhook.rules):
        errors += validate_rule(rule, path / "rules" / index)
    for attribute, field, supported in _CHOICES:
        errors += _validate_choice(getattr(webhook, attribute), path / field, supported)
    errors += _validate_side_effects(webhook.side_effects, path / "sideEffects", options)
    errors += _validate_timeout(webhook.timeout_seconds, path / "timeoutSeconds")
    allow_invalid = options.allow_invalid_selector_values
    namespaces, objects = webhook.namespace_selector, webhook.object_selector
    errors += validate_selector(namespaces, path / "namespaceSelector", allow_invalid_values=allow_invalid)
    errors += validate_selector(objects, path / "objectSelector", allow_invalid_values=allow_invalid)
    reinvocation = path / "reinvocationPolicy"
    errors += _validate_choice(webhook.reinvocation_policy, reinvocation, _REINVOCATION_POLICIES)
    errors += validate_client_config(
        webhook.client_config, path / "clientConfig", allows_grpc=options.allows_grpc
    )
    if not options.ignore_match_conditions:
        conditions = path / "matchConditions"
        errors += validate_match_conditions(webhook.match_conditions, conditions, options.check_expression)
    return errors


def _validate_full_name(name: str, path: FieldPath) -> list[FieldError]:
    if not name:
        return [required(path)]
    if messages := names.check_dns1123_subdomain(name):
        return [invalid(path, name, ",".join(messages))]
    if name.count(".") < 2:
        detail = "should be a domain with at least three segments separated by dots"
        return [invalid(path, name, detail)]
    return []


def _validate_choice(value: str | None, path: FieldPath, supported: tuple[str, ...]) -> list[FieldError]:
    return [] if value is None or value in supported else [not_supported(path, value, supported)]


def _validate_side_effects(
    value: str | None, path: FieldPath, options: ValidationOptions
) -> list[FieldError]:
    allowed = NO_SIDE_EFFECTS if options.require_no_side_effects else _SIDE_EFFECTS
    if value is None:
        return [required(path, f"must specify one of {', '.join(allowed)}")]
    return _validate_choice(value, path, allowed)


def _validate_timeout(seconds: int | None, path: FieldPath) -> list[FieldError]:
    if seconds is None or 1 <= seconds <= _MAXIMUM_TIMEOUT_SECONDS:
        return []
    detail = f"the timeout value must be between 1 and {_MAXIMUM_TIMEOUT_SECONDS} seconds"
    return [invalid(path, seconds, detail)]


def _validate_review_versions(
    versions: tuple[str, ...], path: FieldPath, options: ValidationOptions
) -> list[FieldError]:
    if not versions:
        return [required(path, f"must specify one of {', '.join(REVIEW_VERSIONS)}")]
    errors = []
    known: set[str] = set()
    for index, version in enumerate(versions):
        if version in known:
            errors.append(invalid(path / index, version, "duplicate version"))
            continue
        known.add(version)
        messages = names.check_dns1035_label(version)
        errors += [invalid(path / index, version, message) for message in messages]
    if options.require_known_review_version and known.isdisjoint(REVIEW_VERSIONS):
        errors.append(invalid(path, versions, f"must include at least one of {', '.join(REVIEW_VERSIONS)}"))
    return errors


def update_validation_options(
    new: WebhookConfigurationDocument,
    old: WebhookConfigurationDocument,
    check_expression: ExpressionCheck | None = None,
) -> ValidationOptions:
    """The options for replacing ``old`` with ``new``."""
    created = validation_options(new.version, check_expression)
    names = [webhook.name for webhook in old.webhooks]
    harmless = all(webhook.side_effects in NO_SIDE_EFFECTS for webhook in old.webhooks)
    return msgspec.structs.replace(
        created,
        require_no_side_effects=created.require_no_side_effects and harmless,
        require_known_review_version=all(_has_known_version(webhook) for webhook in old.webhooks),
        require_unique_names=created.require_unique_names and len(set(names)) == len(names),
        allow_invalid_selector_values=any(_has_invalid_selector(webhook) for webhook in old.webhooks),
        ignore_match_conditions=_conditions(new) == _conditions(old),
    )


def _conditions(document: WebhookConfigurationDocument) -> list[object]:
    return [webhook.match_conditions for webhook in document.webhooks]


def _has_known_version(webhook: Webhook) -> bool:
    versions = webhook.admission_review_versions
    return not versions or not set(versions).isdisjoint(REVIEW_VERSIONS)


def _has_invalid_selector(webhook: Webhook) -> bool:
    selectors = (webhook.namespace_selector, webhook.object_selector)
    return any(validate_selector(selector, ROOT) for selector in selectors)
