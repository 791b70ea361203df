"""Events: ``events.k8s.io`` calls by other names what the core group has, and old what it has no more use for.

Source: ``pkg/apis/events/{v1,v1beta1}/conversion.go``.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from pratique.versioned_kinds.forms import SHARED, Form
from pratique.versioned_kinds.shapes import renamed

if TYPE_CHECKING:
    from pratique.versioned_kinds.forms import Family

_TO_CORE = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
_FROM_CORE = {core: name for name, core in _TO_CORE.items()}

_NEWER = Form(functools.partial(renamed, names=_TO_CORE), functools.partial(renamed, names=_FROM_CORE))

EVENTS: Family = {"v1": SHARED, "events.k8s.io/v1": _NEWER, "events.k8s.io/v1beta1": _NEWER}
