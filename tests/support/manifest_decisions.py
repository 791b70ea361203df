"""Decides about manifests in this process, as `pratique review` does: object validation, and chosen controllers."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Iterable

from pratique.admission.controllers import BOTH
from pratique.admission.reviews import Deadline
from pratique.apimachinery.json_values import JSONObject
from pratique.apimachinery.requests import Operation
from pratique.cluster.store import ObjectStore
from pratique.configuration.settings import ChainSettings
from pratique.manifests.requests import review_of_manifest
from pratique_frontdoor.chain.decisions import Decision
from pratique_frontdoor.engines.engine import open_local

_SECONDS = 30.0


@functools.cache
def _chain(*controllers: str) -> ChainSettings:
    return ChainSettings(admission_control=controllers or ("AlwaysAdmit",))


def decide_manifest(
    manifest: JSONObject,
    *,
    old: JSONObject | None = None,
    definitions: Iterable[JSONObject] = (),
    controllers: Iterable[str] = (),
    object_validation: bool = True,
    subresource: str = "",
) -> Decision:
    """Decide about a manifest: a CREATE, or an UPDATE of ``old``, perhaps in a subresource."""
    store = ObjectStore(assume_namespaces=True)
    for definition in definitions:
        store.put(definition)
    operation, before = (Operation.CREATE if old is None else Operation.UPDATE), store.copy()
    if old is not None:
        before.put(old)
    review = review_of_manifest(
        manifest,
        store.resources,
        operation=operation,
        before=before,
        cluster=store,
        object_validation=object_validation,
        subresource=subresource,
    )

    async def decide() -> Decision:
        engine = open_local(_chain(*controllers), store)
        try:
            return await engine.decide(review, BOTH, Deadline.after(_SECONDS), explain=True)
        finally:
            await engine.close()

    return asyncio.run(decide())
