"""The AdmissionConfiguration: the settings of each admission controller, from a file and from flags."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, Literal

import msgspec

from pratique.admission.controllers import MAX_TIMEOUT_SECONDS, Handlers
from pratique.apimachinery.decoding import DecodingProblem, StrictDecodingError, decode_strictly
from pratique.apimachinery.documents import read_file
from pratique.apimachinery.errors import ConfigurationError, InputError
from pratique.apimachinery.field_errors import ROOT, FieldError, FieldPath, forbidden, invalid, required
from pratique.apimachinery.json_values import JSON, JSONObject, json_type
from pratique.apimachinery.source_documents import SourceDocument
from pratique.apimachinery.statuses import go_quoted
from pratique.configuration.loading import DocumentError, describe_problems, to_document_error
from pratique.configuration.settings import ChainSettings, merge_settings, release_settings

_KIND = "AdmissionConfiguration"
_VERSIONS = ("apiserver.config.k8s.io/v1", "apiserver.k8s.io/v1alpha1")
_LEGACY_MEMBERS = frozenset({"imagePolicy", "podNodeSelectorPluginConfig"})
_WEBHOOK_CALLERS = frozenset({"MutatingAdmissionWebhook", "ValidatingAdmissionWebhook"})
_LEGACY_PLUGINS = ("ImagePolicyWebhook", "PodNodeSelector")


class AdmissionPluginConfiguration(msgspec.Struct, frozen=True, rename="camel"):
    """An entry of ``plugins``; ``configuration`` takes precedence over ``path``."""

    name: str = ""
    path: str = ""
    configuration: Any = None
    timeout_seconds: float | None = None
    """The controller's time limit, more than 0 and at most 30. Kubernetes has no such field."""


class AdmissionConfiguration(msgspec.Struct, frozen=True, rename="camel"):
    """An AdmissionConfiguration as written."""

    kind: str = ""
    api_version: str = ""
    plugins: tuple[AdmissionPluginConfiguration, ...] = ()


def load_admission_configuration(path: Path, names: Collection[str] | None = None) -> Mapping[str, JSON]:
    """Read the settings of controllers, as data by a controller's name.

    The first entry for a name counts; controllers with an empty entry are left out. A legacy file, with ``imagePolicy``
    or ``podNodeSelectorPluginConfig`` at the top level, goes whole to the two controllers that read such files.

    Args:
        path: The file.
        names: The controllers to read; files of other controllers are not opened. None reads all.

    Raises:
        ConfigurationError: a file cannot be read or is invalid. The text has a line for each error.
    """
    document = _read_configuration(path)
    plugins = _readable_plugins(document)
    if plugins is None:
        return dict.fromkeys(_LEGACY_PLUGINS, document.data)
    return _configurations(plugins, Path(path).parent, names)


def load_plugin_timeouts(settings: ChainSettings) -> Mapping[str, float]:
    """Read the time limits of controllers, in seconds, by a controller's name; the first entry for a name counts.

    Raises:
        ConfigurationError: the file is invalid.
    """
    file = settings.admission_control_config_file
    if file is None:
        return {}
    document = _read_configuration(file)
    timeouts: dict[str, float | None] = {}
    for plugin in _readable_plugins(document) or ():
        timeouts.setdefault(plugin.name, plugin.timeout_seconds)
    return {name: seconds for name, seconds in timeouts.items() if seconds is not None}


def _read_configuration(path: Path) -> SourceDocument:
    return _read_one(path, f"unable to read admission control configuration from {go_quoted(str(path))}")


def _readable_plugins(document: SourceDocument) -> tuple[AdmissionPluginConfiguration, ...] | None:
    """Decode the entries; None for a legacy file.

    Raises:
        ConfigurationError: the document is invalid.
    """
    try:
        return _plugins(document)
    except (DocumentError, StrictDecodingError) as error:
        raise ConfigurationError("\n".join(describe_problems(document, error.problems))) from None


def _plugins(document: SourceDocument) -> tuple[AdmissionPluginConfiguration, ...] | None:
    """Decode the entries; None for a legacy file."""
    if message := _unsupported(document.data):
        if not _LEGACY_MEMBERS.isdisjoint(document.data):
            return None
        raise DocumentError([DecodingProblem(ROOT / "kind", message)])
    try:
        plugins = decode_strictly(document.data, AdmissionConfiguration).plugins
    except StrictDecodingError as error:
        prefix = "strict decoding error: "
        raise DocumentError(
            [DecodingProblem(problem.path, f"{prefix}{problem}") for problem in error.problems]
        ) from None
    unnamed = [index for index, plugin in enumerate(plugins) if not plugin.name]
    if unnamed:
        raise to_document_error([required(ROOT / "plugins" / index / "name") for index in unnamed])
    misplaced = [
        error
        for index, plugin in enumerate(plugins)
        for error in _timeout_errors(plugin, ROOT / "plugins" / index)
    ]
    if misplaced:
        raise to_document_error(misplaced)
    return plugins


def _timeout_errors(plugin: AdmissionPluginConfiguration, path: FieldPath) -> Iterator[FieldError]:
    seconds, path = plugin.timeout_seconds, path / "timeoutSeconds"
    if seconds is None:
        return
    if not 0 < seconds <= MAX_TIMEOUT_SECONDS:
        yield invalid(path, seconds, f"must be greater than 0 and at most {MAX_TIMEOUT_SECONDS:g}")
    elif plugin.name in _WEBHOOK_CALLERS:
        yield forbidden(path, "each webhook has a timeoutSeconds of its own")


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
    plugins: tuple[AdmissionPluginConfiguration, ...], folder: Path, names: Collection[str] | None
) -> Mapping[str, JSON]:
    first: dict[str, AdmissionPluginConfiguration] = {}
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


_OF_EVERY_CHAIN = frozenset({"resource-quota-ledger"})
"""Flags that ``up`` and ``review`` set themselves; they do not show that you configured the controller."""


def load_plugin_configurations(settings: ChainSettings) -> Mapping[str, JSON]:
    """Read the settings of controllers by their names.

    Flags take precedence over the file, and both over the release that the chain follows.

    Raises:
        ConfigurationError: the file is invalid.
    """
    file = settings.admission_control_config_file
    own = dict(load_admission_configuration(file)) if file is not None else {}
    configurations: dict[str, JSON] = {**release_settings(settings.release)}
    for name, configuration in own.items():
        configurations[name] = _over_release(configurations.get(name), configuration)
    for name, flags in settings.plugin_flags.items():
        configurations[name] = _with_flags(name, configurations.get(name), flags)
    return configurations


def configured_plugins(settings: ChainSettings) -> frozenset[str]:
    """The controllers that a file or flags configure.

    The release does not count, because it applies to all controllers, nor does the quota ledger, which every chain has.

    Raises:
        ConfigurationError: the file is invalid.
    """
    file = settings.admission_control_config_file
    own = frozenset() if file is None else frozenset(load_admission_configuration(file))
    return own | {name for name, flags in settings.plugin_flags.items() if flags.keys() - _OF_EVERY_CHAIN}


def _over_release(of_release: JSON, configuration: JSON) -> JSON:
    """Merge a file's settings over the release's. The controller refuses settings that are not a mapping."""
    if of_release is None or not isinstance(configuration, dict | None):
        return configuration
    return merge_settings(of_release, configuration or {})


def _with_flags(name: str, configuration: JSON, flags: Mapping[str, JSON]) -> JSON:
    if configuration is None:
        return dict(flags)
    if not isinstance(configuration, dict):
        kind = json_type(configuration)
        raise ConfigurationError(f"the configuration of {name} must be a mapping, not {kind}")
    return configuration | dict(flags)


class WebhookAdmissionConfiguration(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel", kw_only=True
):
    """The settings of the webhook controllers.

    Source: ``k8s.io/apiserver/pkg/admission/plugin/webhook/config``.
    """

    api_version: Literal["apiserver.config.k8s.io/v1", "apiserver.config.k8s.io/v1alpha1"] = (
        "apiserver.config.k8s.io/v1"
    )
    kind: Literal["WebhookAdmissionConfiguration", "WebhookAdmission"] = "WebhookAdmissionConfiguration"
    kube_config_file: str = ""
    """The absolute path of a kubeconfig file with the credentials for webhooks; empty for none."""
    static_manifests_dir: str = ""
    """Not supported: pass the folder to ``--config``."""


def check_webhook_settings(settings: WebhookAdmissionConfiguration) -> Handlers:
    """Validate the settings. There are no handlers, because the front door calls webhooks itself.

    Raises:
        ConfigurationError: a path is not absolute, or ``staticManifestsDir`` is set.
    """
    path = settings.kube_config_file
    if path and not PurePosixPath(path).is_absolute():
        raise ConfigurationError(str(invalid(ROOT / "kubeConfigFile", path, "must be an absolute file path")))
    if settings.static_manifests_dir:
        raise ConfigurationError(
            str(forbidden(ROOT / "staticManifestsDir", "give the folder to --config instead"))
        )
    return Handlers()
