"""Configurations from a live cluster: its own policies and webhook configurations, and ConfigMaps with a label.

They are watched, and reloaded as files are: once they have settled, the whole set at once, and only if all of it is
valid. See ``docs/adr/0035-policies-from-the-cluster.md``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from pratique.apimachinery.documents import read_text
from pratique.apimachinery.errors import ConfigurationError, InputError
from pratique.apimachinery.json_values import JSONObject, encode, member
from pratique.apimachinery.names import check_dns1123_label
from pratique.apimachinery.source_documents import SourceDocument
from pratique.cluster.live import LiveCluster
from pratique.cluster.reflectors import Collection, Reflector
from pratique.cluster.store import ObjectKey
from pratique.configuration.admissionregistration import GROUP
from pratique.configuration.loading import Configurations, load_configurations
from pratique.telemetry.reloading_files import UNSETTLED_SECONDS, Reloaded

CONFIG_LABEL = "policy.pratique/config"
"""The label of ConfigMaps that hold configurations; its value is ``true``."""
PART_OF_LABEL, _OURSELVES = "app.kubernetes.io/part-of", "pratique"
"""What marks the webhook configurations by which an API server calls Pratique."""

_CLUSTER, _WEBHOOKS, _CONFIGMAPS = "cluster", "webhooks", "configmaps="
SOURCES = f"{_CLUSTER}, {_WEBHOOKS} or {_CONFIGMAPS}NAMESPACE"
_RESOURCES = {
    _CLUSTER: (
        "mutatingadmissionpolicies",
        "mutatingadmissionpolicybindings",
        "validatingadmissionpolicies",
        "validatingadmissionpolicybindings",
    ),
    _WEBHOOKS: ("mutatingwebhookconfigurations", "validatingwebhookconfigurations"),
}
_CONFIG_MAPS = ("", "configmaps")
_ENDINGS = (".yaml", ".yml", ".json")
_SETTLED_SECONDS = 0.3
"""How long objects must be unchanged before they are read: longer than ``kubectl apply`` pauses between two, so that
every process sees the same set."""
_CHECK_SECONDS = 1.0
_UNSETTLED = "the objects keep changing; they are used once they settle"


def collections_of(source: str) -> tuple[Collection, ...]:
    """Return what to follow for a source of configurations: ``cluster``, ``webhooks`` or ``configmaps=NAMESPACE``.

    Raises:
        ConfigurationError: it is no source.
    """
    if source in _RESOURCES:
        return tuple(Collection((GROUP, name), purpose="configuration") for name in _RESOURCES[source])
    namespace = source.removeprefix(_CONFIGMAPS)
    if namespace == source or check_dns1123_label(namespace):
        raise ConfigurationError(f"--policies-from {source}: give {SOURCES}")
    return (Collection(_CONFIG_MAPS, namespace, f"{CONFIG_LABEL}=true", "configuration"),)


class ConfigurationObjects:
    """The objects that hold configurations, as a live cluster has them."""

    def __init__(self) -> None:
        """Start without objects."""
        self._objects: dict[ObjectKey, JSONObject] = {}
        self._listeners: list[Callable[[], None]] = []

    def add_listener(self, listener: Callable[[], None]) -> None:
        """Call ``listener`` whenever an object differs in what counts."""
        self._listeners.append(listener)

    def change(self, key: ObjectKey, document: JSONObject | None) -> None:
        """Take an object, without what does not count, such as a status."""
        before = self._objects.pop(key, None)
        after = None if document is None or _calls_us(document) else _relevant(document)
        if after is not None:
            self._objects[key] = after
        if after != before:
            for listener in self._listeners:
                listener()

    def publish(self) -> None:
        """Do nothing: objects are read when they have settled."""

    def read(self) -> Iterator[SourceDocument]:
        """Yield the documents of all objects.

        Raises:
            InputError: a ConfigMap holds something else.
        """
        for key, document in sorted(dict(self._objects).items()):
            if key[:2] == _CONFIG_MAPS:
                yield from _documents_of(key, document)
            else:
                yield from read_text(encode(document), "the live cluster")


def _relevant(document: JSONObject) -> JSONObject:
    kept = {name: value for name, value in document.items() if name not in {"metadata", "status"}}
    return {**kept, "metadata": {"name": document["metadata"]["name"]}}


def _calls_us(document: JSONObject) -> bool:
    """Whether these are webhooks of Pratique, which would call itself."""
    if not str(document.get("kind", "")).endswith("WebhookConfiguration"):
        return False
    return bool(member(document, "metadata", "labels", PART_OF_LABEL) == _OURSELVES)


def _documents_of(key: ObjectKey, config_map: JSONObject) -> Iterator[SourceDocument]:
    """Yield the documents of a ConfigMap's texts.

    Raises:
        InputError: one is malformed, or holds no document.
    """
    texts = config_map.get("data") or {}
    named = sorted(name for name in texts if name.endswith(_ENDINGS))
    if not named:
        raise InputError(f"{key} has no key that ends in {', '.join(_ENDINGS)}")
    for name in named:
        where = f"{key}, {name}"
        documents = list(read_text(texts[name].encode(), where, unique_keys=True))
        if not documents:
            # an emptied text is rather a mistake than the wish to have no policies
            raise InputError(f"{where}: it holds no documents; remove the key, or write a List without items")
        yield from documents


class LiveConfigurations(Reloaded[Configurations]):
    """The configurations of files and of a live cluster, reloaded when either changes."""

    def __init__(
        self, paths: Sequence[Path], objects: ConfigurationObjects, followed: Sequence[Reflector]
    ) -> None:
        """Load for the first time.

        Raises:
            ConfigurationError: something is invalid.
        """
        self._followed = followed
        self._changed = asyncio.Event()
        self._refreshing = asyncio.Lock()
        objects.add_listener(self._changed.set)  # at once, so that no change between two readings is missed
        super().__init__("configuration", lambda: _load(paths, objects), paths)

    @property
    def problem(self) -> str:
        """Why it is not known whether the objects are current; empty if they are."""
        return next((problem for reflector in self._followed if (problem := reflector.problem)), "")

    async def refresh(self) -> None:
        """As for files, one at a time."""
        async with self._refreshing:
            await super().refresh()

    async def keep_current(self, suspend: Callable[[bool], None]) -> None:
        """Reload when objects change, and call ``suspend`` with whether they may be out of date, until cancelled."""
        await asyncio.gather(self._reload_on_change(), self._suspend_if_stale(suspend))

    async def _reload_on_change(self) -> None:
        while True:
            await self._changed.wait()
            await self._settle()
            await self.refresh()

    async def _settle(self) -> None:
        clock = asyncio.get_running_loop().time
        begun, told = clock(), False
        while self._changed.is_set():
            self._changed.clear()
            await asyncio.sleep(_SETTLED_SECONDS)
            if clock() - begun > UNSETTLED_SECONDS and not told:
                told = True
                self._record_failure(_UNSETTLED, "configuration kept, the new one cannot be used")

    async def _suspend_if_stale(self, suspend: Callable[[bool], None]) -> None:
        while True:
            suspend(bool(self.problem))
            await asyncio.sleep(_CHECK_SECONDS)


def _load(paths: Sequence[Path], objects: ConfigurationObjects) -> Configurations:
    try:
        return load_configurations(paths, objects.read())
    except ConfigurationError:
        raise
    except InputError as error:
        raise ConfigurationError(str(error)) from None


async def open_live_configurations(
    paths: Sequence[Path], sources: Sequence[str], live: LiveCluster
) -> LiveConfigurations:
    """Load the configurations of files, and those of sources in a live cluster.

    Raises:
        ConfigurationError: something is invalid.
    """
    objects = ConfigurationObjects()
    collections = dict.fromkeys(one for source in sources for one in collections_of(source))
    followed = await live.follow(collections, objects)
    return await asyncio.to_thread(LiveConfigurations, paths, objects, followed)
