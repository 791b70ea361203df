"""ImageVerificationPolicies: which images need whose signatures, and which registries may be asked.

An ImageVerificationPolicy is Pratique's own kind: no API server has it, and only what verifies images reads it. Every
rule that matches an image must hold, so the order of rules does not matter, and a further rule never weakens another.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from pratique.apimachinery.decoding import DecodingProblem, StrictDecodingError, decode_strictly
from pratique.apimachinery.documents import read_file
from pratique.apimachinery.errors import ConfigurationError, InputError
from pratique.apimachinery.field_errors import (
    ROOT,
    FieldError,
    FieldPath,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
)
from pratique.apimachinery.source_documents import SourceDocument
from pratique.configuration.admissionregistration import ObjectMeta
from pratique.configuration.loading import DocumentError, describe_problems, to_document_error
from pratique.images.references import ImageReference, RepositoryPattern, normalize_host
from pratique.images.registries import RegistryHost
from pratique.images.signatures import PublicKey, load_public_key

API_VERSION = "policy.pratique/v1alpha1"
KIND = "ImageVerificationPolicy"
_MAX_KEY_BYTES = 64 * 1024

T = TypeVar("T")
E = TypeVar("E", bound=enum.StrEnum)


class DefaultAction(enum.StrEnum):
    """What becomes of images that no rule matches."""

    DENY = "Deny"
    ALLOW = "Allow"


class KeyRequirement(enum.StrEnum):
    """How many of a rule's keys must have signed."""

    ANY = "Any"
    ALL = "All"


class KeySource(msgspec.Struct, frozen=True, rename="camel"):
    """Where a public key is: in a file, or here."""

    file: str = ""
    """Relative to the folder of the policy."""
    data: str = ""
    """The key itself, in PEM."""


class ImageRuleSpec(msgspec.Struct, frozen=True, rename="camel"):
    """A rule as written."""

    images: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    keys: tuple[KeySource, ...] = ()
    require: str = ""
    annotations: dict[str, str] = {}
    require_digest: bool = False
    match_reference: bool = False
    unsigned: bool = False


class RegistrySpec(msgspec.Struct, frozen=True, rename="camel"):
    """A registry as written."""

    host: str = ""
    address: str = ""
    token_hosts: tuple[str, ...] = ()
    redirect_hosts: tuple[str, ...] = ()


class ImageVerificationSpec(msgspec.Struct, frozen=True, rename="camel"):
    """The ``spec`` of a policy as written."""

    default_action: str = DefaultAction.DENY
    default_registry: str = ""
    rules: tuple[ImageRuleSpec, ...] = ()
    registries: tuple[RegistrySpec, ...] = ()


class ImageVerificationDocument(msgspec.Struct, frozen=True, rename="camel"):
    """A policy as written."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()
    spec: ImageVerificationSpec = ImageVerificationSpec()


class ImageRule(msgspec.Struct, frozen=True, kw_only=True):
    """A rule: what the images that it matches need."""

    images: tuple[RepositoryPattern, ...]
    exclude: tuple[RepositoryPattern, ...] = ()
    keys: tuple[PublicKey, ...] = ()
    """Whose signatures count. Empty: none is needed."""
    require: KeyRequirement = KeyRequirement.ANY
    annotations: Mapping[str, str] = msgspec.field(default_factory=dict)
    """What a signature must say for it to count."""
    require_digest: bool = False
    """Whether images must be named by their digest: a tag can move after it was verified."""
    match_reference: bool = False
    """Whether a signature counts only for the repository that its payload names."""

    def matches(self, image: ImageReference) -> bool:
        """Whether the rule is about an image."""
        return any(pattern.matches(image) for pattern in self.images) and not any(
            pattern.matches(image) for pattern in self.exclude
        )

    @property
    def needed(self) -> int:
        """How many keys must have signed."""
        return len(self.keys) if self.require is KeyRequirement.ALL else min(1, len(self.keys))


class ImageVerificationPolicy(msgspec.Struct, frozen=True):
    """A policy after validation."""

    rules: tuple[ImageRule, ...]
    default_action: DefaultAction = DefaultAction.DENY
    default_registry: str = ""
    """The host of images that name none; empty refuses such images."""
    registries: Mapping[str, RegistryHost] = msgspec.field(default_factory=dict)
    """How to reach registries, by host."""

    def rules_for(self, image: ImageReference) -> Sequence[ImageRule]:
        """Return the rules that an image must satisfy."""
        return [rule for rule in self.rules if rule.matches(image)]


def load_image_policy(
    file: Path, flag: str = "--policy", key_files: list[Path] | None = None
) -> ImageVerificationPolicy:
    """Read a policy and its keys.

    Args:
        file: The policy.
        flag: The flag that names it, for messages.
        key_files: Gets the files that keys come from, even if one of them cannot be read.

    Raises:
        ConfigurationError: it is invalid; the text has a line for each mistake, with file, line and field.
    """
    try:
        documents = list(read_file(str(file), unique_keys=True))
    except InputError as error:
        raise ConfigurationError(f"{flag} {error}") from None
    if len(documents) != 1:
        raise ConfigurationError(f"{flag} {file}: expected one {KIND}, found {len(documents)} documents")
    try:
        return _policy(documents[0], file.parent, [] if key_files is None else key_files)
    except (DocumentError, StrictDecodingError) as error:
        lines = describe_problems(documents[0], error.problems)
        raise ConfigurationError("\n".join([f"{flag} {lines[0]}", *lines[1:]])) from None


def _policy(document: SourceDocument, folder: Path, key_files: list[Path]) -> ImageVerificationPolicy:
    data = document.data
    if (data.get("apiVersion"), data.get("kind")) != (API_VERSION, KIND):
        raise DocumentError(
            [DecodingProblem(ROOT / "kind", f"expected apiVersion: {API_VERSION} and kind: {KIND}")]
        )
    spec = decode_strictly(data, ImageVerificationDocument).spec
    errors: list[FieldError] = []
    reader = _PolicyReader(folder, errors, key_files)
    policy = reader.policy(spec)
    if errors:
        raise to_document_error(errors)
    return policy


class _PolicyReader:
    """Makes a policy of its written form, and collects every mistake."""

    def __init__(self, folder: Path, errors: list[FieldError], key_files: list[Path]) -> None:
        self._folder = folder
        self._errors = errors
        self._key_files = key_files

    def policy(self, spec: ImageVerificationSpec) -> ImageVerificationPolicy:
        path = ROOT / "spec"
        if not spec.rules:
            self._errors.append(required(path / "rules"))
        rules = [self._rule(rule, path / "rules" / index) for index, rule in enumerate(spec.rules)]
        action = self._member(spec.default_action, DefaultAction, path / "defaultAction")
        default = self._host(spec.default_registry, path / "defaultRegistry") if spec.default_registry else ""
        registries = dict(self._registries(spec.registries, path / "registries"))
        return ImageVerificationPolicy(tuple(rules), action, default, registries)

    def _rule(self, rule: ImageRuleSpec, path: FieldPath) -> ImageRule:
        if not rule.images:
            self._errors.append(required(path / "images"))
        if rule.unsigned and (rule.keys or rule.require or rule.annotations or rule.match_reference):
            self._errors.append(forbidden(path / "unsigned", "the rule says what signatures need"))
        if not rule.unsigned and not rule.keys:
            self._errors.append(
                required(path / "keys", "write unsigned: true for images that need no signature")
            )
        return ImageRule(
            images=self._patterns(rule.images, path / "images"),
            exclude=self._patterns(rule.exclude, path / "exclude"),
            keys=self._keys(rule.keys, path / "keys"),
            require=self._member(rule.require or KeyRequirement.ANY, KeyRequirement, path / "require"),
            annotations=rule.annotations,
            require_digest=rule.require_digest,
            match_reference=rule.match_reference,
        )

    def _patterns(self, texts: Sequence[str], path: FieldPath) -> tuple[RepositoryPattern, ...]:
        return tuple(self._each(texts, path, RepositoryPattern))

    def _keys(self, sources: Sequence[KeySource], path: FieldPath) -> tuple[PublicKey, ...]:
        keys: list[PublicKey] = []
        for index, source in enumerate(sources):
            try:
                key = self._key(source, str(path / index))
            except InputError as error:
                self._errors.append(invalid(path / index, source.file or "data", str(error)))
                continue
            if key in keys:
                self._errors.append(duplicate(path / index, source.file or "data"))
            keys.append(key)
        return tuple(keys)

    def _key(self, source: KeySource, name: str) -> PublicKey:
        if bool(source.file) is bool(source.data):
            raise InputError("give a file, or data")
        if source.data:
            return load_public_key(source.data.encode(), name)
        file = self._folder / source.file
        self._key_files.append(file)
        return read_public_key(file)

    def _registries(
        self, specs: Sequence[RegistrySpec], path: FieldPath
    ) -> Iterator[tuple[str, RegistryHost]]:
        seen: set[str] = set()
        for index, spec in enumerate(specs):
            at = path / index
            host = self._host(spec.host, at / "host")
            if host in seen:
                self._errors.append(duplicate(at / "host", spec.host))
            seen.add(host)
            yield (
                host,
                RegistryHost(
                    host,
                    address=self._host(spec.address, at / "address") if spec.address else "",
                    token_hosts=tuple(self._each(spec.token_hosts, at / "tokenHosts", normalize_host)),
                    redirect_hosts=tuple(
                        self._each(spec.redirect_hosts, at / "redirectHosts", _redirect_host)
                    ),
                ),
            )

    def _host(self, text: str, path: FieldPath) -> str:
        return next(self._each([text], path, normalize_host, indexed=False), text)

    def _each(
        self, texts: Sequence[str], path: FieldPath, read: Callable[[str], T], *, indexed: bool = True
    ) -> Iterator[T]:
        for index, text in enumerate(texts):
            try:
                yield read(text)
            except InputError as error:
                self._errors.append(invalid(path / index if indexed else path, text, str(error)))

    def _member(self, value: str, kind: type[E], path: FieldPath) -> E:
        try:
            return kind(value)
        except ValueError:
            self._errors.append(not_supported(path, value, kind))
            return next(iter(kind))


def _redirect_host(text: str) -> str:
    below = text.removeprefix("*.")
    host = normalize_host(below)
    if below != text and "." not in below:
        raise InputError("*. must be followed by a host with a dot, such as *.example.com")
    return f"*.{host}" if below != text else host


def read_public_key(file: Path) -> PublicKey:
    """Read a public key in PEM.

    Raises:
        InputError: the file cannot be read, or holds no key that is accepted.
    """
    try:
        with file.open("rb") as opened:
            content = opened.read(_MAX_KEY_BYTES)
    except OSError as error:
        raise InputError(f"{file}: cannot be read: {error.strerror}") from None
    return load_public_key(content, str(file))
