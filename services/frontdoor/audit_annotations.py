"""Audit annotations: what webhooks leave in the audit log, and what is noted about them.

Sources: ``k8s.io/apiserver/pkg/admission/attributes.go`` ``checkKeyFormat`` and
``k8s.io/apiserver/pkg/admission/plugin/webhook/mutating/dispatcher.go``.
"""

from __future__ import annotations

import functools
import hashlib
import re
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


_LONGEST_KEY = 63
"""Characters of the name part of a qualified name."""
_DIGEST_CHARACTERS = 20
"""80 bits of SHA-256: two keys of one decision do not come to the same by accident."""
_UNFIT = re.compile(r"[^A-Za-z0-9.-]+")


def answer_annotations(annotations: Mapping[str, str]) -> dict[str, str]:
    """Give audit annotations the keys that an API server keeps in the answer of a webhook.

    It makes ``<webhook>/<key>`` of each key, and drops what then has two slashes. A key ``<prefix>/<name>`` becomes
    ``<prefix>_<name>``: a prefix is a DNS subdomain and holds no underscore, so the first one is where the slash was.
    A key that is too long for that, or was none to begin with, is cut, and ends in a digest of the whole; it holds no
    underscore, so that it is never mistaken for one of the others. No two keys of a decision become one.
    """
    keyed: dict[str, str] = {}
    for key, value in annotations.items():
        answered = answer_key(key)
        while answered in keyed:
            answered = _digested(f"{key}\0{answered}")
        keyed[answered] = value
    return keyed


@functools.lru_cache(maxsize=1024)
def answer_key(key: str) -> str:
    """The key without a slash that stands for an audit annotation's key in the answer of a webhook."""
    prefix, _, name = key.partition("/")
    answered = f"{prefix}_{name}"
    if len(answered) <= _LONGEST_KEY and is_annotation_key(key):
        return answered
    return _digested(key)


def _digested(key: str) -> str:
    digest = hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST_CHARACTERS]
    shown = _UNFIT.sub("-", key).strip("-.")[: _LONGEST_KEY - _DIGEST_CHARACTERS - 1].rstrip("-.")
    return f"{shown}.{digest}" if shown else digest
