"""Tolerations: comparing, merging and validating them.

Sources: ``pkg/util/tolerations/tolerations.go``, ``pkg/apis/core/helper/helpers.go``, and ``ValidateTolerations`` of
``pkg/apis/core/validation/validation.go``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from pratique.admission.results import Edits
from pratique.apimachinery import names
from pratique.apimachinery.field_errors import FieldError, FieldPath, invalid, not_supported
from pratique.apimachinery.json_values import JSON, JSONObject, member

EQUAL = "Equal"
EXISTS = "Exists"
NO_SCHEDULE = "NoSchedule"
NO_EXECUTE = "NoExecute"

OPERATORS = (EQUAL, EXISTS)
EFFECTS = (NO_SCHEDULE, "PreferNoSchedule", NO_EXECUTE)

PATH = ("spec", "tolerations")
"""The path of a Pod's tolerations."""


class Toleration(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One toleration; missing members are empty. ``toleration_seconds`` None means forever."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None

    @property
    def document(self) -> JSONObject:
        """The toleration as JSON, without empty members."""
        document: JSONObject = msgspec.to_builtins(self)
        return document

    @property
    def key_and_effect(self) -> tuple[str, str]:
        """Key and effect, which identified a toleration up to 1.16."""
        return self.key, self.effect


def read_toleration(value: JSON) -> Toleration:
    """Read a toleration; members of the wrong type count as missing."""
    seconds = member(value, "tolerationSeconds")
    return Toleration(
        key=_text(value, "key"),
        operator=_text(value, "operator"),
        value=_text(value, "value"),
        effect=_text(value, "effect"),
        toleration_seconds=seconds if type(seconds) is int else None,
    )


def _text(value: JSON, name: str) -> str:
    text = member(value, name)
    return text if isinstance(text, str) else ""


def pod_tolerations(pod: JSON) -> list[Toleration]:
    """Read the tolerations of a Pod, one per item."""
    items = member(pod, *PATH)
    return [read_toleration(item) for item in items] if isinstance(items, list) else []


def match_toleration(first: Toleration, second: Toleration) -> bool:
    """Tell whether two tolerations match, ignoring their seconds: ``MatchToleration``."""
    return (first.key, first.effect, first.operator, first.value) == (
        second.key,
        second.effect,
        second.operator,
        second.value,
    )


class Supersets:
    """Tolerations that can be searched for supersets of another one in constant time.

    A superset tolerates everything that the other one does: ``isSuperset``. It has the other's key or none, the other's
    effect or none, and the operator ``Exists`` or the other's value. If two agree in these, the one that lasts longer
    is the superset. ``Equal`` is a superset only of an explicit ``Equal``. A toleration without an operator has
    no supersets but itself and those with ``Exists``.
    """

    def __init__(self, tolerations: Iterable[Toleration] = ()) -> None:
        """Start with some tolerations."""
        self._same: set[Toleration] = set()
        self._longest: dict[tuple[str, str, str, str], float] = {}
        for toleration in tolerations:
            self.add(toleration)

    def add(self, toleration: Toleration) -> None:
        """Add a toleration."""
        self._same.add(toleration)
        kind = _kind(toleration)
        if kind is not None:
            self._longest[kind] = max(self._longest.get(kind, -math.inf), _limit(toleration))

    def has(self, special: Toleration) -> bool:
        """Tell whether one of them is a superset of ``special``."""
        return special in self._same or any(
            self._lasts(kind, special) for kind in _kinds_of_supersets(special)
        )

    def has_strict(self, special: Toleration) -> bool:
        """Tell whether one of them is a superset of ``special`` without ``special`` being a superset of it."""
        own = _kind(special)
        limit = _limit(special) if special.effect == NO_EXECUTE else math.inf
        return any(
            self._longest.get(kind, -math.inf) > limit if kind == own else self._lasts(kind, special)
            for kind in _kinds_of_supersets(special)
        )

    def _lasts(self, kind: tuple[str, str, str, str], special: Toleration) -> bool:
        longest = self._longest.get(kind)
        return longest is not None and (kind[1] != NO_EXECUTE or longest >= _seconds(special))


def _kind(toleration: Toleration) -> tuple[str, str, str, str] | None:
    """Key, effect, operator and value, as far as they decide what else it covers; None: nothing but itself."""
    if toleration.operator == EXISTS:
        return toleration.key, toleration.effect, EXISTS, ""
    if toleration.operator in {EQUAL, ""}:
        return toleration.key, toleration.effect, toleration.operator, toleration.value
    return None


def _kinds_of_supersets(special: Toleration) -> Iterator[tuple[str, str, str, str]]:
    for effect in {"", special.effect}:
        for key in {"", special.key}:
            yield key, effect, EXISTS, ""
        if special.operator == EQUAL:
            yield special.key, effect, EQUAL, special.value
            yield special.key, effect, "", special.value


def _limit(toleration: Toleration) -> float:
    """The seconds after which it expires; only those with ``NoExecute`` do."""
    return _seconds(toleration) if toleration.effect == NO_EXECUTE else math.inf


def _seconds(toleration: Toleration) -> float:
    return math.inf if toleration.toleration_seconds is None else toleration.toleration_seconds


def merge_tolerations(tolerations: Sequence[Toleration]) -> list[int]:
    """Drop tolerations that others are supersets of: ``MergeTolerations``. Returns the indexes of the rest, in order.

    Of two that are supersets of each other the first stays. Kubernetes keeps the last unless they are equal, so merging
    again may change the result; only malformed tolerations are affected.
    """
    later, kept = Supersets(), list[int]()
    for index in reversed(range(len(tolerations))):
        if not later.has_strict(tolerations[index]):
            kept.append(index)
        later.add(tolerations[index])
    earlier, rest = Supersets(), list[int]()
    for index in reversed(kept):
        if not earlier.has(tolerations[index]):
            rest.append(index)
            earlier.add(tolerations[index])
    return rest


_FEW_REMOVALS = 64
"""Each removal of an item moves all items after it: more of them are one replacement of the list."""


def merge_into_pod(edits: Edits, added: Sequence[Toleration]) -> None:
    """Merge tolerations into those of a Pod, its own first; also drops those of its own that others cover."""
    own = pod_tolerations(edits.document)
    every = [*own, *added]
    kept = merge_tolerations(every)
    dropped = sorted(set(range(len(own))) - set(kept), reverse=True)
    if len(dropped) > _FEW_REMOVALS:
        items = edits.get(PATH)
        edits.set(PATH, [items[index] for index in kept if index < len(own)])
    else:
        for index in dropped:
            edits.remove((*PATH, index))
    for index in kept:
        if index >= len(own):
            edits.append(PATH, every[index].document)


def all_covered(tolerations: Iterable[Toleration], allowed: Sequence[Toleration]) -> bool:
    """Tell whether every toleration has a superset among the allowed ones: ``VerifyAgainstWhitelist``.

    An empty ``allowed`` allows all.
    """
    supersets = Supersets(allowed)
    return not allowed or all(supersets.has(toleration) for toleration in tolerations)


def is_conflict(first: Iterable[Toleration], second: Iterable[Toleration]) -> bool:
    """Tell whether two lists differ for a key and effect: ``IsConflict``, up to 1.16."""
    others = _by_key_and_effect(second)
    return any(
        others.get(key, toleration) != toleration for key, toleration in _by_key_and_effect(first).items()
    )


def all_listed(tolerations: Iterable[Toleration], allowed: Iterable[Toleration]) -> bool:
    """Tell whether every toleration is among the allowed ones, as up to 1.16; an empty ``allowed`` allows all."""
    listed = _by_key_and_effect(allowed)
    wanted = _by_key_and_effect(tolerations)
    return not listed or all(listed.get(key) == toleration for key, toleration in wanted.items())


def _by_key_and_effect(tolerations: Iterable[Toleration]) -> dict[tuple[str, str], Toleration]:
    return {toleration.key_and_effect: toleration for toleration in tolerations}


def validate_tolerations(tolerations: Iterable[Toleration], path: FieldPath) -> list[FieldError]:
    """Validate the tolerations at ``path``: ``ValidateTolerations``."""
    return [
        error
        for index, toleration in enumerate(tolerations)
        for error in _toleration_errors(toleration, path / index)
    ]


def _toleration_errors(toleration: Toleration, path: FieldPath) -> Iterator[FieldError]:
    if toleration.key:
        yield from (
            invalid(path / "key", toleration.key, message)
            for message in names.check_qualified_name(toleration.key)
        )
    elif toleration.operator != EXISTS:
        text = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
        yield invalid(path / "operator", toleration.operator, text)
    if toleration.toleration_seconds is not None and toleration.effect != NO_EXECUTE:
        text = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        yield invalid(path / "effect", toleration.effect, text)
    yield from _operator_errors(toleration, path / "operator")
    if toleration.effect and toleration.effect not in EFFECTS:
        yield not_supported(path / "effect", toleration.effect, EFFECTS)


def _operator_errors(toleration: Toleration, path: FieldPath) -> Iterator[FieldError]:
    if toleration.operator in {EQUAL, ""}:
        messages = names.check_label_value(toleration.value)
        if messages:
            yield invalid(path, toleration.value, ";".join(messages))
    elif toleration.operator != EXISTS:
        yield not_supported(path, toleration.operator, OPERATORS)
    elif toleration.value:
        yield invalid(path, toleration.document, "value must be empty when `operator` is 'Exists'")
