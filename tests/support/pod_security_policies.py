"""PodSecurityPolicies and who may use them, for tests."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.cluster.authorization import AuthorizationAttributes, AuthorizationDecision
from support.pods import pod

ANY = {"rule": "RunAsAny"}
RULES = {"runAsUser": ANY, "seLinux": ANY, "fsGroup": ANY, "supplementalGroups": ANY}
"""What every policy has to say, with nothing demanded."""


def policy(name: str = "p", *, annotations: JSON = None, **spec: JSON) -> JSONObject:
    """A policy that allows what is asked for and demands nothing where ``spec`` does not say otherwise."""
    return {
        "apiVersion": "policy/v1beta1",
        "kind": "PodSecurityPolicy",
        "metadata": {"name": name, "annotations": annotations},
        "spec": {**RULES, **spec},
    }


def pod_with_context(*, annotations: JSON = None, container: JSON = None, **spec: JSON) -> JSONObject:
    """A Pod of one container, whose security context is ``container``."""
    context: JSONObject = {} if container is None else {"securityContext": container}
    return pod({"name": "c", **context}, annotations=annotations, **spec)


@dataclasses.dataclass(frozen=True)
class Deciding:
    """An authorizer that decides by a function, and writes down what it was asked."""

    decide: Callable[[AuthorizationAttributes], bool]
    asked: list[AuthorizationAttributes] = dataclasses.field(default_factory=list, repr=False)

    def authorize(self, attributes: AuthorizationAttributes) -> AuthorizationDecision:
        """Decide."""
        self.asked.append(attributes)
        return AuthorizationDecision(allowed=self.decide(attributes))


def allowing(*names: str) -> Deciding:
    """Allows everybody to use the policies of those names; all of them where none is named."""
    return Deciding(lambda asked: not names or asked.name in names)


EARLY = {"release": "1.10"}


def of_early_releases_alone(case: JSONObject) -> bool:
    """Tell whether a case shows what later releases do otherwise: sysctls by annotation, how refusals begin."""
    text = case["expected"].get("messageContains", "")
    return str(case["era"]).startswith("1.4-1.10") or text.startswith("unable to validate against any")


def roles_of(told: JSONObject) -> list[JSONObject]:
    """The roles and bindings that grant what a case says of its authorizer.

    What is granted in no namespace is left out: a Pod is in one, and a ClusterRoleBinding would grant it there.
    """
    if told["default"] == "allow":
        groups = ("system:authenticated", "system:serviceaccounts")
        everybody = [{"kind": "Group", "name": group} for group in groups]
        return [_role("ClusterRole", "all", "", "*", []), _binding("ClusterRole", "all", "", everybody)]
    grants = [grant for grant in told["allow"] if grant["namespace"]]
    return [made for index, grant in enumerate(grants) for made in _granted(f"grant-{index}", grant)]


def _granted(name: str, grant: JSONObject) -> list[JSONObject]:
    namespace = grant["namespace"]
    subject = {"kind": "User", "name": grant["user"]}
    role = _role("Role", name, namespace, grant["apiGroup"], [grant["name"]])
    return [role, _binding("Role", name, namespace, [subject])]


def _role(kind: str, name: str, namespace: str, group: str, names: list[str]) -> JSONObject:
    rule = {
        "apiGroups": [group],
        "resources": ["podsecuritypolicies"],
        "verbs": ["use"],
        "resourceNames": names,
    }
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace},
        "rules": [rule],
    }


def _binding(kind: str, name: str, namespace: str, subjects: list[JSONObject]) -> JSONObject:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding" if namespace else "ClusterRoleBinding",
        "metadata": {"name": name, "namespace": namespace},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name},
        "subjects": subjects,
    }
