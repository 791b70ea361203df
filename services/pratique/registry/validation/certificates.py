"""ClusterTrustBundles, and the names of signers.

Source: ``k8s.io/kubernetes/pkg/apis/certificates/validation/validation.go``.
"""

from __future__ import annotations

from collections.abc import Callable

from pratique.admission.reviews import Review
from pratique.apimachinery import names
from pratique.apimachinery.field_errors import (
    ROOT,
    FieldError,
    FieldPath,
    covered,
    invalid,
    required,
    too_long,
)
from pratique.apimachinery.json_values import JSONObject
from pratique.apimachinery.pem import pem_blocks
from pratique.apimachinery.statuses import go_quoted
from pratique.registry.validation.kind_validation import KindValidation, ValidationTable
from pratique.registry.validation.metadata import (
    NameRule,
    subdomain_name,
    validate_immutable,
    validate_metadata,
    validate_metadata_update,
)
from pratique.registry.validation.x509 import authority_problem

_METADATA = ROOT / "metadata"
_SPEC = ROOT / "spec"
_LONGEST_SUBDOMAIN, _LONGEST_LABEL = 253, 63
_LONGEST_SIGNER = _LONGEST_SUBDOMAIN + 1 + _LONGEST_SUBDOMAIN + _LONGEST_LABEL + 1


def validate_signer_name(signer: str, path: FieldPath) -> list[FieldError]:
    """Validate the name of a signer, ``domain/path``: ``ValidateSignerName`` of core."""
    if not signer:
        return [required(path)]
    if signer.count("/") != 1:
        detail = "must be a fully qualified domain and path of the form 'example.com/signer-name'"
        return [invalid(path, signer, detail)]
    domain, _, last = signer.partition("/")
    errors = [too_long(path, _LONGEST_SUBDOMAIN)] if len(domain.encode()) > _LONGEST_SUBDOMAIN else []
    errors += _first_bad_label(domain, path, names.check_dns1123_label)
    if "." not in domain:
        detail = "should be a domain with at least two segments separated by dots"
        errors.append(invalid(path, domain, detail))
    errors += _first_bad_label(last, path, names.check_dns1123_subdomain)
    return errors + ([too_long(path, _LONGEST_SIGNER)] if len(signer.encode()) > _LONGEST_SIGNER else [])


def _first_bad_label(text: str, path: FieldPath, check: Callable[[str], list[str]]) -> list[FieldError]:
    for label in text.split("."):
        if messages := check(label):
            where = f"validating label {go_quoted(label)}"
            return [invalid(path, text, f"{where}: {message}") for message in messages]
    return []


def bundle_name_rule(signer: str) -> NameRule:
    """The names of ClusterTrustBundles: ``ValidateClusterTrustBundleName``."""

    def check(name: str, is_prefix: bool) -> list[str]:  # noqa: FBT001 - the shape of a NameRule
        if not signer:
            if ":" in name:
                return ['ClusterTrustBundle without signer name must not have ":" in its name']
            return subdomain_name(name, is_prefix)
        prefix = signer.replace("/", ":") + ":"
        if not name.startswith(prefix):
            return [f"ClusterTrustBundle for signerName {signer} must be named with prefix {prefix}"]
        return subdomain_name(name.removeprefix(prefix), is_prefix)

    return check


_LARGEST_BUNDLE = 1024 * 1024
_HIDDEN = "<value omitted>"


def _validate_bundle(written: JSONObject, _review: Review, *, parses_bundle: bool = True) -> list[FieldError]:
    """``ValidateClusterTrustBundle``."""
    spec = written.get("spec", {})
    signer = spec.get("signerName", "")
    metadata = written.get("metadata", {})
    errors = validate_metadata(metadata, bundle_name_rule(signer), _METADATA, namespaced=False)
    errors += validate_signer_name(signer, _SPEC / "signerName") if signer else []
    if parses_bundle:
        errors += _validate_trust_bundle(spec.get("trustBundle", "").encode(), _SPEC / "trustBundle")
    return errors


def _validate_trust_bundle(bundle: bytes, path: FieldPath) -> list[FieldError]:
    """``validateTrustBundle``."""
    if len(bundle) > _LARGEST_BUNDLE:
        return [too_long(path, _LARGEST_BUNDLE)]
    problems: list[str] = []
    indexes: dict[bytes, list[int]] = {}
    for index, block in enumerate(pem_blocks(bundle)):
        problem = ""
        if block.type != "CERTIFICATE":
            problem = f"has bad block type: {block.type}"
        elif block.has_headers:
            problem = "has PEM block headers"
        elif not (problem := authority_problem(block.der)):
            indexes.setdefault(block.der, []).append(index)
        problems += [f"entry {index} {problem}"] if problem else []
    if not problems:
        problems += [] if indexes else ["at least one trust anchor must be provided"]
        problems += [
            f"duplicate trust anchor (indices [{' '.join(map(str, at))}])"
            for at in indexes.values()
            if len(at) > 1
        ]
    return [invalid(path, _HIDDEN, problem) for problem in problems]


def _validate_bundle_update(written: JSONObject, old: JSONObject, review: Review) -> list[FieldError]:
    """``ValidateClusterTrustBundleUpdate``."""
    spec, old_spec = written.get("spec", {}), old.get("spec", {})
    is_changed = spec.get("trustBundle", "") != old_spec.get("trustBundle", "")
    errors = _validate_bundle(written, review, parses_bundle=is_changed)
    errors += validate_metadata_update(written.get("metadata", {}), old.get("metadata", {}), _METADATA)
    signer, stored = spec.get("signerName", ""), old_spec.get("signerName", "")
    return errors + covered(validate_immutable(signer, stored, _SPEC / "signerName"), "immutable")


VALIDATIONS: ValidationTable = {
    ("certificates.k8s.io", "clustertrustbundles"): KindValidation(_validate_bundle, _validate_bundle_update),
}
