"""The AdmissionConfiguration: what each admission controller is told.

Source: ``k8s.io/apiserver/pkg/admission/config.go``.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from pratique.configurations.problems import DocumentError, describe, from_field_errors
from pratique.documents import read_file
from pratique.errors import ConfigurationError, InputError
from pratique.field_errors import ROOT, required
from pratique.statuses import go_quoted
from pratique.strict_decoding import Problem, StrictDecodingError, decode_strictly

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from pratique.json_values import JSON, JSONObject
    from pratique.source_documents import SourceDocument

_KIND = "AdmissionConfiguration"
_VERSIONS = ("apiserver.config.k8s.io/v1", "apiserver.k8s.io/v1alpha1")
_LEGACY_MEMBERS = frozenset({"imagePolicy", "podNodeSelectorPluginConfig"})
_LEGACY_PLUGINS = ("ImagePolicyWebhook", "PodNodeSelector")


class Plugin(msgspec.Struct, frozen=True):
    """One of ``plugins``: ``configuration`` wins over ``path``."""

    name: str = ""
    path: str = ""
    configuration: Any = None


class AdmissionConfiguration(msgspec.Struct, frozen=True, rename="camel"):
    """An AdmissionConfiguration as it is written."""

    kind: str = ""
    api_version: str = ""
    plugins: tuple[Plugin, ...] = ()


def load_admission_configuration(path: Path, names: Collection[str] | None = None) -> Mapping[str, JSON]:
    """Read what controllers are told: by a controller's name, its configuration as data.

    The first entry of a name counts; a controller whose entry says nothing is not in the answer. A file from
    before there was an AdmissionConfiguration, with ``imagePolicy`` or ``podNodeSelectorPluginConfig`` at its
    top, goes whole to the two controllers that read such.

    Args:
        path: The file.
        names: The controllers that are asked for; the files of others are not opened. None asks for all.

    Raises:
        ConfigurationError: a file cannot be read, or says what it must not. The text has a line for everything
            that is wrong.
    """
    document = _read_one(path, f"unable to read admission control configuration from {go_quoted(str(path))}")
    try:
        plugins = _plugins(document)
    except (DocumentError, StrictDecodingError) as error:
        raise ConfigurationError("\n".join(describe(document, error.problems))) from None
    if plugins is None:
        return dict.fromkeys(_LEGACY_PLUGINS, document.data)
    return _configurations(plugins, Path(path).parent, names)


def _plugins(document: SourceDocument) -> tuple[Plugin, ...] | None:
    """Decode the entries; None where the file is a legacy one."""
    if message := _unsupported(document.data):
        if not _LEGACY_MEMBERS.isdisjoint(document.data):
            return None
        raise DocumentError([Problem(ROOT / "kind", message)])
    try:
        plugins = decode_strictly(document.data, AdmissionConfiguration).plugins
    except StrictDecodingError as error:
        prefix = "strict decoding error: "
        raise DocumentError([Problem(one.path, f"{prefix}{one}") for one in error.problems]) from None
    unnamed = [index for index, plugin in enumerate(plugins) if not plugin.name]
    if unnamed:
        raise from_field_errors([required(ROOT / "plugins" / index / "name") for index in unnamed])
    return plugins


def _unsupported(data: JSONObject) -> str:
    kind, version = data.get("kind"), data.get("apiVersion")
    if not isinstance(kind, str) or not kind:
        return f"Object 'Kind' is missing; expected {_KIND} of {_VERSIONS[0]}"
    if not isinstance(version, str) or not version:
        return f"Object 'apiVersion' is missing; expected {_VERSIONS[0]}"
    if kind != _KIND or version not in _VERSIONS:
        registered = f"no kind {go_quoted(kind)} is registered for version {go_quoted(version)}"
        return f"{registered}; expected {_KIND} of {_VERSIONS[0]}"
    return ""


def _configurations(
    plugins: tuple[Plugin, ...], folder: Path, names: Collection[str] | None
) -> Mapping[str, JSON]:
    first: dict[str, Plugin] = {}
    for plugin in plugins:
        first.setdefault(plugin.name, plugin)
    wanted = [plugin for plugin in first.values() if names is None or plugin.name in names]
    configurations: dict[str, JSON] = {}
    problems: list[str] = []
    for plugin in wanted:
        if plugin.configuration is not None:
            configurations[plugin.name] = plugin.configuration
        elif plugin.path:
            trouble = f"Couldn't open admission plugin configuration {plugin.path} of {plugin.name}"
            try:
                configurations[plugin.name] = _read_one(folder / plugin.path, trouble).data
            except ConfigurationError as error:
                problems.append(str(error))
    if problems:
        raise ConfigurationError("\n".join(problems))
    return configurations


def _read_one(path: Path, trouble: str) -> SourceDocument:
    try:
        documents = list(read_file(str(path), unique_keys=True))
    except InputError as error:
        raise ConfigurationError(f"{trouble} [{error}]") from None
    if len(documents) != 1:
        raise ConfigurationError(f"{trouble} [{path}: expected one document, found {len(documents)}]")
    return documents[0]
