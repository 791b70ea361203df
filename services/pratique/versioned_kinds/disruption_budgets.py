"""PodDisruptionBudgets: in v1 an empty selector selects every Pod, in v1beta1 none.

A label that no Pod has says the one in the words of the other. Sources: ``pkg/apis/policy/{v1,v1beta1}/conversion.go``
and ``pkg/apis/policy/helper.go``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.versioned_kinds.forms import Form, as_it_is
from pratique.versioned_kinds.shapes import changed, mapping, mappings, without

if TYPE_CHECKING:
    from pratique.json_values import JSONObject
    from pratique.versioned_kinds.forms import Change, Family

_LABEL = "pdb.kubernetes.io/deprecated-v1beta1-empty-selector-match"
_WITH_LABEL: JSONObject = {"matchExpressions": [{"key": _LABEL, "operator": "Exists"}]}
"""No Pod."""
_WITHOUT_LABEL: JSONObject = {"matchExpressions": [{"key": _LABEL, "operator": "DoesNotExist"}]}
"""Every Pod."""


def _on_selector(change: Change) -> Change:
    return lambda budget: changed(budget, "spec", lambda spec: changed(spec, "selector", change))


def _v1beta1_to_shared(selector: JSONObject) -> JSONObject:
    plain = _plain(selector)
    if not plain:
        return _WITH_LABEL
    return {} if plain == _WITHOUT_LABEL else _stripped(selector)


def _v1beta1_from_shared(selector: JSONObject) -> JSONObject:
    plain = _plain(selector)
    if plain == _WITH_LABEL:
        return {}
    return selector if plain else _WITHOUT_LABEL


def _v1_to_shared(selector: JSONObject) -> JSONObject:
    return selector if _plain(selector) == _WITH_LABEL else _stripped(selector)


def _plain(selector: JSONObject) -> JSONObject:
    """The selector without what is empty in it."""
    expressions = [
        _plain_expression(one) for one in mappings(selector.get("matchExpressions"), "matchExpressions")
    ]
    labels = mapping(selector.get("matchLabels"), "matchLabels")
    return ({"matchLabels": labels} if labels else {}) | (
        {"matchExpressions": expressions} if expressions else {}
    )


def _plain_expression(expression: JSONObject) -> JSONObject:
    return {name: value for name, value in expression.items() if value or name != "values"}


def _stripped(selector: JSONObject) -> JSONObject:
    """The selector without the label, which is not for users to write."""
    before = mappings(selector.get("matchExpressions"), "matchExpressions")
    after = [expression for expression in before if expression.get("key") != _LABEL]
    if len(after) == len(before):
        return selector
    return {**selector, "matchExpressions": after} if after else without(selector, "matchExpressions")


BUDGETS: Family = {
    "policy/v1": Form(_on_selector(_v1_to_shared), as_it_is),
    "policy/v1beta1": Form(_on_selector(_v1beta1_to_shared), _on_selector(_v1beta1_from_shared)),
}
