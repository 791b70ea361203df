"""Audit annotations: what webhooks leave in the audit log, and what is noted about them.

Sources: ``k8s.io/apiserver/pkg/admission/attributes.go`` ``checkKeyFormat`` and
``k8s.io/apiserver/pkg/admission/plugin/webhook/mutating/dispatcher.go``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.go_json import go_json
from pratique.names import check_qualified_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pratique.json_values import JSONObject


def webhook_annotations(webhook: str, annotations: Mapping[str, str]) -> dict[str, str]:
    """Key a webhook's own annotations ``<webhook>/<key>``; those that no key can be made for are left out."""
    keyed = ((f"{webhook}/{key}", value) for key, value in annotations.items())
    return {key: value for key, value in keyed if is_annotation_key(key)}


def is_annotation_key(key: str) -> bool:
    """Tell whether an audit annotation can have this key: a DNS subdomain, one slash, and a name."""
    return key.count("/") == 1 and not check_qualified_name(key)


def mutation_annotation(configuration: str, webhook: str, *, mutated: bool) -> str:
    """The value that notes that a mutating webhook was called."""
    return go_json({"configuration": configuration, "webhook": webhook, "mutated": mutated})


def patch_annotation(configuration: str, webhook: str, operations: Iterable[JSONObject]) -> str:
    """The value that notes a mutating webhook's patch: operations in order, their members sorted by name."""
    patch = [dict(sorted(operation.items())) for operation in operations]
    return go_json(
        {"configuration": configuration, "webhook": webhook, "patch": patch, "patchType": "JSONPatch"}
    )
