"""Chains: a fresh one for every case, though what several of them name is read only once."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from frontdoor.engines import open_local
from frontdoor.local_engines import LocalSources
from pratique.cluster_files import load_cluster
from pratique.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from frontdoor.engines import Engine
    from pratique.clusters import ObjectStore
    from pratique_cli.suites.cases import Case, ClusterSource

K = TypeVar("K")
T = TypeVar("T")


class Chains:
    """Makes the chain of each case, with a store, ledgers and limits of its own."""

    def __init__(self) -> None:
        """Begin with nothing read."""
        self._sources: dict[str, LocalSources | InputError] = {}
        self._stores: dict[ClusterSource | None, ObjectStore | InputError] = {}

    def sources(self, case: Case) -> LocalSources:
        """Read what the settings of a case name.

        Raises:
            InputError: it cannot be used.
        """
        settings = case.settings
        # Settings hold a mapping, which is no key.
        return _once(self._sources, repr(settings), lambda: LocalSources.read(settings))

    def store(self, case: Case) -> ObjectStore:
        """Make what the controllers of a case look up.

        Raises:
            InputError: it cannot be used.
        """
        source = case.cluster
        return _once(self._stores, source, lambda: _load(source)).copy()

    def engine(self, case: Case, store: ObjectStore) -> Engine:
        """Make the chain of a case, which is to be closed.

        Raises:
            InputError: what the settings name cannot be used.
        """
        return open_local(case.settings, store, self.sources(case))


def _once(read: dict[K, T | InputError], key: K, make: Callable[[], T]) -> T:
    """Make something the first time it is asked for; what cannot be made is not tried again."""
    if key not in read:
        try:
            read[key] = make()
        except InputError as error:
            read[key] = error
    found = read[key]
    if isinstance(found, InputError):
        raise found
    return found


def _load(source: ClusterSource | None) -> ObjectStore:
    return load_cluster(None) if source is None else load_cluster(source.paths, source.objects)
