"""PriorityLevelConfigurations: until v1beta2 shares were called assured, since then nominal.

v1beta3 takes a share of zero for none given unless an annotation says otherwise. Sources:
``pkg/apis/flowcontrol/{v1alpha1,v1beta1,v1beta2,v1beta3}/conversion.go``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.versioned_kinds.forms import SHARED, Change, Form
from pratique.versioned_kinds.shapes import annotated, annotation, changed, mapping, renamed

if TYPE_CHECKING:
    from pratique.json_values import JSONObject
    from pratique.versioned_kinds.forms import Family

_ZERO = "flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares"


def _renaming(old: str, new: str) -> Change:
    return lambda level: changed(
        level, "spec", lambda spec: changed(spec, "limited", lambda limited: renamed(limited, {old: new}))
    )


def _v1beta3_to_shared(level: JSONObject) -> JSONObject:
    return annotated(level, {}, [_ZERO])


def _v1beta3_from_shared(level: JSONObject) -> JSONObject:
    limited = mapping(mapping(level.get("spec"), "spec").get("limited"), "limited")
    if limited.get("nominalConcurrencyShares") != 0 or annotation(level, _ZERO) is not None:
        return level
    return annotated(level, {_ZERO: ""})


_ASSURED, _NOMINAL = "assuredConcurrencyShares", "nominalConcurrencyShares"
_EARLY = Form(_renaming(_ASSURED, _NOMINAL), _renaming(_NOMINAL, _ASSURED))
_GROUP = "flowcontrol.apiserver.k8s.io"

LEVELS: Family = {
    f"{_GROUP}/v1": SHARED,
    f"{_GROUP}/v1beta3": Form(_v1beta3_to_shared, _v1beta3_from_shared),
    f"{_GROUP}/v1beta2": _EARLY,
    f"{_GROUP}/v1beta1": _EARLY,
    f"{_GROUP}/v1alpha1": _EARLY,
}
