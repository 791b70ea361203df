"""ServiceAccount: gives every Pod an account and its token, and restricts Pods to the account's Secrets.

Source: ``plugin/pkg/admission/serviceaccount/admission.go``, and that of 1.20 for tokens in Secrets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from pratique.admission.controllers import BOTH, Controller, Handlers
from pratique.admission.results import Answer, Deny, Edits, allow, deny
from pratique.admission.reviews import Review
from pratique.admission.rules import rule
from pratique.apimachinery import statuses
from pratique.apimachinery.errors import RefusalError
from pratique.apimachinery.json_values import JSON, JSONObject, member
from pratique.apimachinery.names import generate_name
from pratique.apimachinery.requests import Operation
from pratique.apimachinery.statuses import StatusDetails, go_quoted
from pratique.pods import pod_spec, service_account_tokens

DEFAULT_ACCOUNT = "default"
ENFORCE_ANNOTATION = "kubernetes.io/enforce-mountable-secrets"
"""On a ServiceAccount: deny Pods that reference Secrets which the account does not."""

_GO_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})
"""What Go's ``strconv.ParseBool`` parses as true."""

_NAME_FIELDS = ("serviceAccountName", "serviceAccount")
"""The field and its deprecated alias, which an API server always writes both: ``Convert_core_PodSpec_To_v1_PodSpec`` in
``pkg/apis/core/v1/conversion.go``."""

_PREFIXES = {"initContainers": "init ", "containers": "", "ephemeralContainers": "ephemeral "}


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Constants and feature gates of an API server."""

    limit_secret_references: bool = False
    """Restrict all Pods to the Secrets of their accounts, annotated or not."""
    mount_service_account_token: bool = True
    """Mount tokens."""
    bound_service_account_token_volume: bool = True
    """Mount a projected token, as since 1.21. False: mount the Secret that holds one, as before."""
    require_api_token: bool = msgspec.field(default=True, name="requireAPIToken")
    """Deny Pods whose account has no Secret with a token. Applies only if Secrets are mounted."""


class _ServiceAccounts(msgspec.Struct, frozen=True):
    settings: Settings
    generate: Callable[[str], str]

    def mutate(self, review: Review) -> Answer:
        """Give a new Pod an account, its token and its image pull Secrets."""
        pod = review.object
        if review.operation is not Operation.CREATE or not pod_spec.is_pod(pod):
            return allow()
        if pod_spec.is_mirror(pod):
            return _deny_first(review, _mirror_errors(pod)) or allow()
        edits = Edits(pod)
        name = pod_spec.service_account_name(pod) or DEFAULT_ACCOUNT
        for field in _NAME_FIELDS:
            edits.set(("spec", field), name)
        account = _find_account(review, edits.document)
        if self.settings.mount_service_account_token and _wants_token(account, pod):
            self._mount_token(review, account, edits)
        if not member(pod, "spec", "imagePullSecrets"):
            for secret in _names(account, "imagePullSecrets"):
                edits.append(("spec", "imagePullSecrets"), {"name": secret})
        return self._check(review, account, edits.document) or edits.answer()

    def validate(self, review: Review) -> Answer:
        """Deny an invalid account or forbidden Secrets; a webhook may have set them."""
        pod = review.object
        if not pod_spec.is_pod(pod):
            return allow()
        if review.operation is Operation.UPDATE:
            return self._check_ephemeral(review, pod)
        if pod_spec.is_mirror(pod):
            return _deny_first(review, _mirror_errors(pod)) or allow()
        return self._check(review, _find_account(review, pod), pod) or allow()

    def _mount_token(self, review: Review, account: JSONObject, edits: Edits) -> None:
        if self.settings.bound_service_account_token_volume:
            service_account_tokens.mount_bound_token(edits, self.generate)
            return
        secret = service_account_tokens.token_secret(account, review.cluster)
        if secret:
            service_account_tokens.mount_secret(edits, secret, self.generate)
        elif self.settings.require_api_token:
            raise RefusalError(_no_token_status(str(member(account, "metadata", "name"))))

    def _check(self, review: Review, account: JSONObject, pod: JSONObject) -> Deny | None:
        if not self._is_limited(account):
            return None
        return _deny_first(review, _unlisted_secrets(account, pod))

    def _check_ephemeral(self, review: Review, pod: JSONObject) -> Answer:
        """Check the containers that an update adds. Kubernetes, too, denies them with a plain error."""
        account = _find_account(review, pod)
        if not self._is_limited(account):
            return allow()
        error = next(_unlisted_in_containers(account, pod, ("ephemeralContainers",)), None)
        return allow() if error is None else deny(status=statuses.plain_error(error))

    def _is_limited(self, account: JSONObject) -> bool:
        enforced = member(account, "metadata", "annotations", ENFORCE_ANNOTATION)
        return self.settings.limit_secret_references or enforced in _GO_TRUE


def _find_account(review: Review, pod: JSON) -> JSONObject:
    """The Pod's account. Raises RefusalError if the Pod names none, or it does not exist."""
    name, namespace = pod_spec.service_account_name(pod), review.namespace
    if not name:
        own = str(member(pod, "metadata", "name") or "")
        text = f"no service account specified for pod {namespace}/{own}"
        raise RefusalError(statuses.admission_forbidden(review, text))
    account = review.cluster.get("", "serviceaccounts", name, namespace)
    if account is None:
        text = (
            f"error looking up service account {namespace}/{name}: serviceaccount {go_quoted(name)} not found"
        )
        raise RefusalError(statuses.admission_forbidden(review, text))
    return account


def _wants_token(account: JSONObject, pod: JSON) -> bool:
    """Whether to mount a token. The Pod's setting overrides the account's."""
    own, default = (
        member(pod, "spec", "automountServiceAccountToken"),
        account.get("automountServiceAccountToken"),
    )
    setting = default if own is None else own
    return setting is not False


def _mirror_errors(pod: JSONObject) -> Iterator[str]:
    if pod_spec.service_account_name(pod):
        yield "a mirror pod may not reference service accounts"
    if any(pod_spec.secret_names(pod)):
        yield "a mirror pod may not reference secrets"
    for _, _, volume in pod_spec.iter_volumes(pod):
        if any(source.get("serviceAccountToken") is not None for source in pod_spec.projections(volume)):
            yield "a mirror pod may not use ServiceAccountToken volume projections"


def _unlisted_secrets(account: JSONObject, pod: JSONObject) -> Iterator[str]:
    """The Pod's references to Secrets that the account does not reference."""
    mountable = set(_names(account, "secrets"))
    for _, _, volume in pod_spec.iter_volumes(pod):
        secret = member(volume, "secret")
        if secret is not None and (name := _string_member(secret, "secretName")) not in mountable:
            yield f'volume with secret.secretName="{name}"' + _not_referenced(account, "secret")
    yield from _unlisted_in_containers(account, pod, ("initContainers", "containers"))
    pulling = set(_names(account, "imagePullSecrets"))
    for index, name in enumerate(_names(member(pod, "spec"), "imagePullSecrets")):
        if name not in pulling:
            yield f'imagePullSecrets[{index}].name="{name}"' + _not_referenced(account, "imagePullSecret")


def _unlisted_in_containers(account: JSONObject, pod: JSONObject, fields: tuple[str, ...]) -> Iterator[str]:
    mountable = set(_names(account, "secrets"))
    for field, _, container in pod_spec.iter_containers(pod):
        if field not in fields:
            continue
        who = f"{_PREFIXES[field]}container {_string_member(container, 'name')}"
        for how, name in _secret_references(container):
            if name not in mountable:
                reference = f'{who} with {how} referencing secret.secretName="{name}"'
                yield reference + _not_referenced(account, "secret")


def _secret_references(container: JSONObject) -> Iterator[tuple[str, str]]:
    """How a container references Secrets, and which."""
    for variable in _items(container, "env"):
        reference = member(variable, "valueFrom", "secretKeyRef")
        if reference is not None:
            yield f"envVar {_string_member(variable, 'name')}", _string_member(reference, "name")
    for source in _items(container, "envFrom"):
        reference = member(source, "secretRef")
        if reference is not None:
            yield "envFrom", _string_member(reference, "name")


def _not_referenced(account: JSONObject, what: str) -> str:
    name = member(account, "metadata", "name")
    return f" is not allowed because service account {name} does not reference that {what}"


def _deny_first(review: Review, errors: Iterator[str]) -> Deny | None:
    error = next(errors, None)
    return None if error is None else deny(status=statuses.admission_forbidden(review, error))


def _no_token_status(account: str) -> statuses.Status:
    text = (
        f"No API token found for service account {go_quoted(account)}, retry after the token is automatically"
        " created and added to the service account"
    )
    details = StatusDetails(name="create pod", kind="serviceaccounts", retry_after_seconds=1)
    return statuses.failure(500, "ServerTimeout", text, details)


def _names(value: JSON, field: str) -> Iterator[str]:
    return (_string_member(item, "name") for item in _items(value, field))


def _items(value: JSON, field: str) -> list[JSON]:
    items = member(value, field)
    return items if isinstance(items, list) else []


def _string_member(value: JSON, field: str) -> str:
    return str(member(value, field) or "")


def build(settings: Settings, generate: Callable[[str], str] = generate_name) -> Handlers:
    """Make the controller; ``generate`` completes the names of volumes."""
    accounts = _ServiceAccounts(settings, generate)
    return Handlers(mutate=accounts.mutate, validate=accounts.validate)


CONTROLLER = Controller(
    name="ServiceAccount",
    summary="Gives Pods a ServiceAccount and its token, and restricts them to its Secrets.",
    phases=BOTH,
    rules=(
        rule("pods", operations=("CREATE",)),
        rule("pods/ephemeralcontainers", operations=("UPDATE",)),
    ),
    build=build,
    settings=Settings,
    default=True,
    looks_up=("serviceaccounts", "secrets"),
    trusted=True,
)
