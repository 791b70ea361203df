"""The causes of a denial, and the fields of an object that its messages name."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from pratique.admission.results import OutcomeStatus
from pratique.apimachinery.field_errors import Step
from pratique.apimachinery.go_formats import is_index
from pratique.apimachinery.json_values import JSON, member
from pratique.apimachinery.patterns import pattern
from pratique.apimachinery.statuses import Status, StatusCause
from pratique.pods.pod_spec import CONTAINER_FIELDS
from pratique_frontdoor.chain.decisions import Decision

if TYPE_CHECKING:
    Path = tuple[Step, ...]

_STEP = pattern(r"(?:^|\.)([A-Za-z_$][\w$-]*)|\[([^\[\]]*)\]")
_FIELD = pattern(r"(?<![\w./-])([a-z]\w*(?:\.[A-Za-z_$][\w$-]*|\[[^\[\]\s]*\])+)(:?)")
_CONTAINER = pattern(r'\bcontainers? "([^"]+)"')
_VOLUME = pattern(r'\bvolumes? "([^"]+)"')
_SETTING = pattern(r"\b(?:set|in) (securityContext(?:\.\w+)+)")
_OF_POD = pattern(r"\bpod must (?:not )?(?:set|include)\b")
_HOST_NAMESPACE = pattern(r"\bhost namespaces \((host\w+)=true")
_POD_SPECS: tuple[Path, ...] = (
    ("spec", "template", "spec"),
    ("spec", "jobTemplate", "spec", "template", "spec"),
    ("template", "spec"),
    ("spec",),
)
"""Paths of the Pod spec in workloads and Pods."""


def parse_field(text: str) -> Path | None:
    """Parse a field path as Kubernetes writes it: ``spec.containers[0].image``, ``metadata.labels[a/b]``.

    None if it is not a field path. Numbers in brackets are read as indexes.
    """
    steps: list[Step] = []
    end = 0
    for found in _STEP.finditer(text):
        if found.start() != end:
            return None
        name, subscript = found.groups()
        steps.append(name if name is not None else int(subscript) if is_index(subscript) else subscript)
        end = found.end()
    return tuple(steps) if steps and end == len(text) else None


class ItemPlaces:
    """The places of the items of an object's lists by their names. Each list is read once, however many are asked."""

    def __init__(self) -> None:
        # By the identity of a list, which is kept alive so that no other one gets it.
        self._known: dict[int, tuple[JSON, dict[Hashable, list[int]]]] = {}

    def named(self, items: JSON, name: JSON) -> Sequence[int]:
        """The places of the items of a name in a list, in order; none in anything else."""
        if not isinstance(items, list) or not isinstance(name, Hashable):
            return ()
        known = self._known.get(id(items))
        if known is None:
            places: dict[Hashable, list[int]] = defaultdict(list)
            for index, item in enumerate(items):
                if isinstance(found := member(item, "name"), Hashable):
                    places[found].append(index)
            known = self._known[id(items)] = (items, places)
        return known[1].get(name, ())


def field_of(message: str, document: JSON, places: ItemPlaces | None = None) -> Path | None:
    """Find the field that a message is about.

    It is the path in the message, or that of the container, volume or setting named in a message of Pod Security. None
    if the message names no field, or several. ``document`` is the object that the message is about, and ``places`` are
    known from other messages about it.
    """
    return _named_field(message, document) or _pod_field(message, document, places or ItemPlaces())


def fields_of(message: str, document: JSON, places: ItemPlaces | None = None) -> Iterator[Path]:
    """Yield the fields of a message that may report several violations, as messages of Pod Security do.

    It lists violations one after another, each with details in parentheses.
    """
    places = places or ItemPlaces()
    for part in message.split("), "):
        if (path := field_of(part, document, places)) is not None:
            yield path


def _named_field(message: str, document: JSON) -> Path | None:
    """Prefer a path followed by a colon; take another path only if it is the only one."""
    named: dict[Path, bool] = {}
    for text, colon in _FIELD.findall(message):
        path = parse_field(text)
        if path is not None and member(document, path[0]) is not None:
            named[path] = named.get(path, False) or bool(colon)
    accused = [path for path, is_accused in named.items() if is_accused]
    if accused:
        return accused[0]
    return next(iter(named)) if len(named) == 1 else None


def _pod_field(message: str, document: JSON, places: ItemPlaces) -> Path | None:
    spec = next(
        (path for path in _POD_SPECS if isinstance(member(document, *path, "containers"), list)), None
    )
    return None if spec is None else next(_fields_in_pod(message, document, spec, places), None)


def _fields_in_pod(message: str, document: JSON, spec: Path, places: ItemPlaces) -> Iterator[Path]:
    """Yield the fields found, the most specific first."""
    if found := _HOST_NAMESPACE.search(message):
        yield (*spec, found[1])
    if container := _CONTAINER.search(message):
        setting = _SETTING.search(message, container.end())
        further = tuple(setting[1].split(".")) if setting else ()
        for field in CONTAINER_FIELDS:
            items = member(document, *spec, field)
            yield from ((*spec, field, place, *further) for place in places.named(items, container[1]))
    if volume := _VOLUME.search(message):
        items = member(document, *spec, "volumes")
        yield from ((*spec, "volumes", place) for place in places.named(items, volume[1]))
    if pod := _OF_POD.search(message):
        setting = _SETTING.search(message, pod.start())
        yield (*spec, *(setting[1].split(".") if setting else ()))


def original_field(path: Path, document: JSON, written: JSON) -> Path:
    """Convert the path of a field to its path in the original object, before mutation.

    Items with a name are matched by it. The path ends where the original object has no such field.
    """
    steps: list[Step] = []
    places = ItemPlaces()
    for step in path:
        document = member(document, step)
        if isinstance(step, int) and (name := member(document, "name")) is not None:
            place: Step | None = next(iter(places.named(written, name)), None)
        else:
            place = step
        if place is None or member(written, place) is None:
            break
        steps.append(place)
        written = member(written, place)
    return tuple(steps)


REFUSING = frozenset({OutcomeStatus.DENIED, OutcomeStatus.FAILED})
"""Results of steps that deny a request."""


class Cause(msgspec.Struct, frozen=True):
    """One cause of a denial."""

    step: int | None
    """The index of the step; None if no step denied the request."""
    field: str
    """The field that it names, such as ``spec.containers[0]``; empty without one."""
    text: str
    """The message."""


def causes(decision: Decision, status: Status) -> Iterator[Cause]:
    """Yield each cause of a denial, then each denying step that is in none of them."""
    steps = [index for index, step in enumerate(decision.steps) if step.outcome in REFUSING]
    declared = status.details.causes if status.details else ()
    current_step = steps[0] if steps else None
    without_cause = list(steps)
    for cause in declared:
        found = _step_of_cause(cause, decision, steps)
        current_step = current_step if found is None else found
        without_cause = [step for step in without_cause if step != current_step]
        yield Cause(current_step, cause.field, _text_of_cause(cause) or status.message)
    for step in without_cause:
        yield Cause(step, "", decision.steps[step].reason or status.message)
    if not declared and not steps:
        yield Cause(None, "", status.message)


def _step_of_cause(cause: StatusCause, decision: Decision, steps: Iterable[int]) -> int | None:
    """Return the step of a cause: the cause's message contains the step's reason."""
    reasons = ((step, decision.steps[step].reason) for step in steps)
    return next((step for step, reason in reasons if reason and reason in cause.message), None)


def _text_of_cause(cause: StatusCause) -> str:
    field, message = cause.field, cause.message
    return message if not field or _is_named(field, message) else f"{field}: {message}"


def _is_named(field: str, message: str) -> bool:
    """Tell whether a message names a field as a whole. One object can have 100,000 causes: no pattern is compiled."""
    start = message.find(field)
    while start >= 0:
        before, after = (
            message[max(0, start - 1) : start],
            message[start + len(field) : start + len(field) + 1],
        )
        if not (before == "." or _is_of_word(before) or _is_of_word(after)):
            return True
        start = message.find(field, start + 1)
    return False


def _is_of_word(character: str) -> bool:
    return character == "_" or character.isalnum()
