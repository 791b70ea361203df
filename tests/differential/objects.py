"""A family for object validation: manifests of all kinds, with a change or two, as ``kubectl apply`` sends them.

The API server runs without plugins, and ours without controllers: what is compared is decoding, defaults, strategies
and validation.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import http.client
import json
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from random import Random

import msgspec
import yaml

from differential.comparison import Difference, canonical, compare, differences
from differential.drawn_changes import change
from differential.judging import Judge
from differential.listed import is_listed
from differential.pairs import NAMESPACES, USUAL, Answer, Request, Setup, User, World, made, resource_of
from differential.subresources import subresource_request, with_status
from differential.tallies import Found, Tally
from pratique.apimachinery.errors import PratiqueError
from pratique.apimachinery.json_values import JSON, Document, JSONObject
from pratique.apimachinery.requests import Operation, UserInfo
from pratique.cluster.api_resources import built_in_resources
from pratique.manifests.requests import review_of_manifest
from support.chains import decide

_BASES = tuple(Path(__file__).with_name(f"{name}_objects.yaml") for name in ("base", "full"))
_NEVER_STORED = frozenset(
    {"APIService", "CustomResourceDefinition", "FlowSchema", "PriorityLevelConfiguration", "ServiceCIDR"}
)
"""Kinds whose objects the API server itself obeys, so that they are only created in dry runs."""
_ANSWERED = frozenset({"authentication.k8s.io/v1", "authorization.k8s.io/v1"})
"""Versions of kinds without names, which the API server answers and never stores."""
KEPT_PLACES = frozenset(
    {("apiVersion",), ("kind",), ("metadata",)}
    | {("metadata", name) for name in ("namespace", "name", "uid", "resourceVersion")}
)
"""Places that changes leave alone, because the request names them, too."""
_KEPT_OF_NEW = KEPT_PLACES - {("metadata", "name")}
_ALLOCATED = ("clusterIP", "clusterIPs", "healthCheckNodePort")


@dataclasses.dataclass(frozen=True, slots=True)
class Objects:
    """Creations and updates of objects of all kinds, and of their subresources."""

    name: str = "objects"
    requests: int = 200
    setup: Setup = USUAL
    subresources: float = 0.2
    """How many of the requests are to subresources."""

    def compare(self, judge: Judge, drawn_from: str, pairs: int, told: Callable[[str], None]) -> Tally:
        """Compare so many manifests."""
        random, tally = Random(drawn_from), Tally(pairs=pairs)
        namespace = f"w{random.randrange(16**6):06x}{time.time_ns() % 16**4:04x}"
        with judge.world(draw_world(random, namespace)) as world:
            for _ in range(pairs):
                request, old = draw_request(random, world, self.subresources)
                ours = our_answer(request, old)
                try:
                    real, difference = ask(judge, request, ours)
                except http.client.RemoteDisconnected:  # it panics over a few objects
                    tally.pairs -= 1
                    tally.left_out += 1
                    continue
                if difference is None:
                    tally.same += 1
                    tally.refused += not real.allowed
                elif is_listed(difference):
                    tally.listed += 1
                else:
                    _add(tally, Found(self.name, drawn_from, request, difference), told)
        return tally


def draw_world(random: Random, namespace: str) -> World:
    """A namespace with an object of each kind that an API server stores without obeying it, some with a status."""
    stored = [with_status(random, base) for base in _bases(namespace) if _is_stored(base)]
    return World((made(NAMESPACES, namespace), *stored), namespace)


def _is_stored(base: JSONObject) -> bool:
    return base["kind"] not in _NEVER_STORED and base["apiVersion"] not in _ANSWERED


def draw_request(random: Random, world: World, subresources: float) -> tuple[Request, JSONObject | None]:
    """A request in a world, with the stored object if it changes one; ``subresources`` is the share of those to one."""
    if random.random() < subresources:
        return subresource_request(random, list(world.objects))
    there = [item for item in world.objects if item["kind"] != "Namespace"]
    return _request(random, world.namespace, _bases(world.namespace), there)


_AGAIN = 500
"""How often what differs is asked again.

Of two members of a map in Go, the second comes first once in eight times; of two such maps, once in 64.
"""


def ask(judge: Judge, request: Request, ours: Answer) -> tuple[Answer, Difference | None]:
    """What the API server answers, and how it differs, unless it answers as we do once."""
    real = judge.apply(request)
    difference = difference_of(request, real, ours)
    for _ in range(_AGAIN):
        if difference is None or difference.what not in {"message", "warnings"}:
            break
        real = judge.apply(request)
        difference = difference_of(request, real, ours)
    return real, difference


def _add(tally: Tally, found: Found, told: Callable[[str], None]) -> None:
    if found.cause not in {known.cause for known in tally.found}:
        kind = found.request.resource.kind
        told(f"{found.request.method} {kind} in {found.world}: {found.difference.describe()[:1500]}")
    tally.found.append(found)


@functools.cache
def _written() -> str:
    return "\n---\n".join(file.read_text() for file in _BASES)


@functools.lru_cache(maxsize=1)
def _bases(namespace: str) -> list[JSONObject]:
    return list(yaml.safe_load_all(_written().replace("$N", namespace)))


def _request(
    random: Random, namespace: str, bases: list[JSONObject], there: list[JSONObject]
) -> tuple[Request, JSONObject | None]:
    """A creation, or an update of what is there, with the stored object."""
    old = random.choice(there) if random.random() < 0.3 else None
    body = copy.deepcopy(old or random.choice(bases))
    resource = resource_of(body["apiVersion"], body["kind"])
    inside = namespace if resource.namespaced else ""
    name = body["metadata"].get("name", "")
    if old is None and name:
        body["metadata"]["name"] = name = f"new-{name}" if resource.kind not in _NAMED else name
    for _ in range(random.choice((0, 1, 1, 1, 2))):
        _, body = change(random, body, KEPT_PLACES if old or resource.kind in _NAMED else _KEPT_OF_NEW)
    return Request(User.ADMIN, "PUT" if old else "POST", resource, inside, name, body), old


_NAMED = frozenset({"APIService", "CustomResourceDefinition"})
"""Kinds whose names follow from what is in them; a dry run does not mind that they are there."""


_ADMIN = UserInfo("admin", "uid-of-admin", ("system:masters", "system:authenticated"))
"""Whom the API server knows by the token of ``User.ADMIN``."""


def our_answer(request: Request, old: JSONObject | None) -> Answer:
    """What we answer, with object validation and no controllers."""
    is_scale = request.subresource == "scale"
    try:
        review = review_of_manifest(
            copy.deepcopy(old if is_scale else request.body),
            built_in_resources(),
            operation=Operation.UPDATE if old else Operation.CREATE,
            old=old,
            namespace=request.namespace or None,
            user=_ADMIN,
            dry_run=True,
            subresource=request.subresource,
            object_validation=True,
        )
    except PratiqueError as error:
        return Answer(0, "", f"no request: {error}")
    if is_scale:
        review = review.with_object(Document.from_data(copy.deepcopy(request.body)))
    elif request.subresource:
        review = msgspec.structs.replace(review, name=request.name)
    try:
        decision = decide(review)
    except Exception as error:  # noqa: BLE001 - a defect is a difference, and the run goes on
        place = traceback.extract_tb(error.__traceback__)[-1]
        return Answer(0, "", f"{type(error).__name__}: {error} in {Path(place.filename).name}:{place.lineno}")
    status = decision.status
    if status is not None:
        return Answer(status.code, status.reason, status.message, decision.warnings)
    return Answer(200, warnings=decision.warnings, object=decision.object_document.data)


def difference_of(request: Request, real: Answer, ours: Answer) -> Difference | None:
    """How our answer differs from the API server's; None if it does not."""
    found = compare(dataclasses.replace(real, object=None), dataclasses.replace(ours, object=None))
    if found is not None or not real.allowed or _answers_another(request):
        return found
    return next(differences(_stored(real.object, request), _stored(ours.object, request)), None)


def _stored(value: JSONObject, request: Request) -> JSONObject:
    """An object without what only storage knows, or hands out."""
    without: JSONObject = json.loads(json.dumps(canonical(value)))
    if request.subresource:
        without["status"] = _without_zeros(value.get("status") or {})
    if request.resource.kind == "Service":
        spec = without.get("spec", {})
        for name in _ALLOCATED:
            spec.pop(name, None)
        for port in spec.get("ports", []):
            port.pop("nodePort", None)
    return without


_WITHOUT_ANSWER = frozenset({"binding", "eviction", "token"})
"""Subresources that answer with another object than they get."""


_ANSWERED_ANEW = frozenset({"SelfSubjectReview", "SelfSubjectRulesReview"})
"""Kinds that are answered with an object that has nothing but a status."""


def _answers_another(request: Request) -> bool:
    return request.subresource in _WITHOUT_ANSWER or request.resource.kind in _ANSWERED_ANEW


def _without_zeros(value: JSON) -> JSON:
    """A status without what Go writes though it is nothing, and without the time of the request."""
    if isinstance(value, dict):
        kept = {name: _without_zeros(member) for name, member in value.items() if name not in _OF_NOW}
        return {name: member for name, member in kept.items() if member not in (None, "", 0, [], {})}
    return [_without_zeros(item) for item in value] if isinstance(value, list) else value


_OF_NOW = frozenset({"lastPhaseTransitionTime", "lastTransitionTime", "lastUpdateTime"})
