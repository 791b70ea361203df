"""Stillness: a cluster that every review finds as it was at the beginning."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from pratique.namespaces import assumed_service_account
from pratique.objects import name_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pratique.clusters import ObjectKey, ObjectStore
    from pratique.json_values import JSONObject
    from pratique.resources import Resources


class StillCluster:
    """Shows a store, and what one review created in it until :meth:`settle`."""

    def __init__(self, store: ObjectStore) -> None:
        """Show ``store``, which is not changed."""
        self._store = store
        self._created: dict[ObjectKey, JSONObject] = {}

    @property
    def resources(self) -> Resources:
        """All kinds that the store knows."""
        return self._store.resources

    def get(self, group: str, resource: str, name: str, namespace: str = "") -> JSONObject | None:
        """One object."""
        for key, document in self._created.items():
            if (key.group, key.resource, key.namespace, key.name) == (group, resource, namespace, name):
                return document
        return self._store.get(group, resource, name, namespace)

    def list(self, group: str, resource: str, namespace: str | None = None) -> Sequence[JSONObject]:
        """All objects of a resource, sorted by namespace and name."""
        stored = self._store.list(group, resource, namespace)
        created = [
            document
            for key, document in self._created.items()
            if (key.group, key.resource) == (group, resource) and namespace in (None, key.namespace)
        ]
        return sorted(itertools.chain(stored, created), key=_place) if created else stored

    async def create(self, document: JSONObject) -> bool:
        """Take a new object for as long as the review lasts; False where there is one of its name already.

        Raises:
            InputError: its kind is not known, or it has no name.
        """
        key = self._store.key_of(document)
        if self.get(key.group, key.resource, key.name, key.namespace) is not None:
            return False
        self._created[key] = document
        if (key.group, key.resource) == ("", "namespaces"):
            await self.create(assumed_service_account(key.name))
        return True

    def settle(self) -> None:
        """Forget what was created: the next review finds what this one found."""
        self._created.clear()


def _place(document: JSONObject) -> tuple[str, str]:
    return str(document["metadata"].get("namespace", "")), name_of(document)
