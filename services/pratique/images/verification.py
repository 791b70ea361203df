"""Verification: does an image have the signatures that a policy asks for? What cannot be verified is refused."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence

import cachetools
import msgspec

from pratique.admission.reviews import Deadline
from pratique.apimachinery.errors import InputError
from pratique.images.policies import DefaultAction, ImageRule, ImageVerificationPolicy
from pratique.images.references import ImageReference, is_digest, parse_reference
from pratique.images.registries import Descriptor, RegistryClient, RegistryError
from pratique.images.signatures import (
    BUNDLE_TYPES,
    SIGN_PREDICATE,
    SIMPLE_SIGNING_TYPE,
    ImageSignature,
    PublicKey,
    SignedClaims,
    UnusableSignatureError,
    read_bundle,
    read_simple_signing,
)

MAX_SIGNATURES = 50
"""The most signatures of one image that are looked at, so that nobody who can push makes each Pod cost much."""
MAX_CONCURRENT_IMAGES = 32
"""The most images of one registry that are verified at a time; others wait. Each registry has its own, so that nobody
waits for one that does not answer but those who use it."""

_SIGNATURE_ANNOTATION = "dev.cosignproject.cosign/signature"
_PREDICATE_ANNOTATION = "dev.sigstore.bundle.predicateType"
_SIGNATURE_TYPES = frozenset(
    {
        "application/vnd.dev.cosign.artifact.sig.v1+json",
        *BUNDLE_TYPES,
        "application/vnd.oci.empty.v1+json",
        "",
    }
)
"""The artifact types of referrers that may be signatures: payloads, bundles, and what says nothing. cosign 2 gives the
empty one to bundles in indexes that it writes for registries without an API of referrers."""
_CACHED_IMAGES = 4096


class ImageVerdict(msgspec.Struct, frozen=True):
    """Whether an image may be used."""

    image: str
    """The image as it was named."""
    allowed: bool
    reason: str = ""
    """Why it is refused; empty if it is not."""
    digest: str = ""
    """The digest that was verified; empty if none was."""
    keys: tuple[str, ...] = ()
    """Where the keys that have signed it came from."""


class _VerifiedSignature(msgspec.Struct, frozen=True):
    """What keys have signed of an image's digest."""

    signers: frozenset[PublicKey]
    claims: SignedClaims


class ImageVerifier:
    """Verifies images by one policy."""

    def __init__(
        self,
        policy: ImageVerificationPolicy,
        client: RegistryClient,
        *,
        cache_seconds: float = 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Ask registries through ``client``.

        Args:
            policy: Which images need whose signatures.
            client: Asks registries.
            cache_seconds: How long an image that was verified needs not be verified again, by its digest. 0 caches
                nothing. Refusals are never cached, so an image that was signed meanwhile is accepted.
            clock: The time in seconds, which never goes back.
        """
        self._policy = policy
        self._client = client
        self._turns: dict[str, asyncio.Semaphore] = {}
        self._cache: cachetools.TTLCache[tuple[str, str], tuple[str, ...]] | None = None
        if cache_seconds:
            self._cache = cachetools.TTLCache(_CACHED_IMAGES, cache_seconds, timer=clock)

    async def verify_all(self, images: Iterable[str], seconds: float) -> Sequence[ImageVerdict]:
        """Verify images side by side, each once and within ``seconds``; the verdicts come in their order."""
        names = list(dict.fromkeys(images))
        return await asyncio.gather(*(self.verify(name, seconds) for name in names))

    async def verify(self, image: str, seconds: float) -> ImageVerdict:
        """Verify an image within ``seconds``. Whatever keeps it from being verified is the reason of a refusal."""
        try:
            reference = parse_reference(image, self._policy.default_registry)
            rules = self._policy.rules_for(reference)
            if not rules:
                return self._default(image)
            # Rules name the hosts, so there are never many.
            turns = self._turns.setdefault(reference.host, asyncio.Semaphore(MAX_CONCURRENT_IMAGES))
            async with turns, asyncio.timeout(seconds):
                return await self._verify(image, reference, rules, Deadline.after(seconds))
        except TimeoutError:
            return ImageVerdict(image, allowed=False, reason="it was not verified in time")
        except (InputError, RegistryError) as error:
            return ImageVerdict(image, allowed=False, reason=str(error))

    def _default(self, image: str) -> ImageVerdict:
        if self._policy.default_action is DefaultAction.ALLOW:
            return ImageVerdict(image, allowed=True)
        return ImageVerdict(image, allowed=False, reason="no rule of the policy is about it")

    async def _verify(
        self, image: str, reference: ImageReference, rules: Sequence[ImageRule], deadline: Deadline
    ) -> ImageVerdict:
        if not reference.digest and any(rule.require_digest for rule in rules):
            return ImageVerdict(image, allowed=False, reason="it must be named by its digest, name@sha256:…")
        if not any(rule.keys for rule in rules):
            return ImageVerdict(image, allowed=True, digest=reference.digest)
        digest = reference.digest or await self._client.resolve(reference, deadline)
        if digest is None:
            return ImageVerdict(image, allowed=False, reason=f"the registry has no such tag: {reference}")
        key = (reference.name, digest)
        signers = None if self._cache is None else self._cache.get(key)
        if signers is None:
            search = _SignatureSearch(self._client, reference, digest, rules)
            missing = await search.run(deadline)
            if missing:
                return ImageVerdict(image, allowed=False, reason=missing, digest=digest)
            signers = search.signers()
            if self._cache is not None:
                self._cache[key] = signers
        return ImageVerdict(image, allowed=True, digest=digest, keys=signers)


class _SignatureSearch:
    """Looks for the signatures of one image until all its rules hold."""

    def __init__(
        self, client: RegistryClient, image: ImageReference, digest: str, rules: Sequence[ImageRule]
    ) -> None:
        self._client = client
        self._image = image
        self._digest = digest
        self._rules = [rule for rule in rules if rule.keys]
        self._keys = list(dict.fromkeys(key for rule in self._rules for key in rule.keys))
        self._verified: list[_VerifiedSignature] = []
        self._looked_at = 0
        self._referrers = 0
        self._faults: collections.Counter[str] = collections.Counter()

    async def run(self, deadline: Deadline) -> str:
        """Search; why a rule does not hold, empty if all do."""
        async for signature in self._signatures(deadline):
            self._add(signature)
            if all(self._lacks(rule) == 0 for rule in self._rules):
                return ""
        lacking = next(rule for rule in self._rules if self._lacks(rule))
        return self._describe(lacking)

    def signers(self) -> tuple[str, ...]:
        """Where the keys whose signatures counted came from."""
        found = {key for rule in self._rules for key in self._signers_for(rule)}
        return tuple(sorted(key.name for key in found))

    def _add(self, signature: ImageSignature) -> None:
        signers = signature.signers(self._keys)
        if not signers:
            self._faults["no key of the policy made it"] += 1
            return
        try:
            claims = signature.claims()
        except UnusableSignatureError as error:
            self._faults[str(error)] += 1
            return
        if self._digest not in claims.digests:
            self._faults["it is of another image"] += 1
            return
        self._verified.append(_VerifiedSignature(signers, claims))

    def _signers_for(self, rule: ImageRule) -> frozenset[PublicKey]:
        """The keys of a rule that have signed as it asks for."""
        counted = [
            verified.signers
            for verified in self._verified
            if rule.annotations.items() <= verified.claims.annotations.items()
            and (not rule.match_reference or self._is_for_here(verified.claims))
        ]
        return frozenset(rule.keys) & frozenset[PublicKey]().union(*counted)

    def _is_for_here(self, claims: SignedClaims) -> bool:
        try:
            return parse_reference(claims.reference).name == self._image.name
        except InputError:
            return False

    def _lacks(self, rule: ImageRule) -> int:
        return max(0, rule.needed - len(self._signers_for(rule)))

    def _describe(self, rule: ImageRule) -> str:
        if not self._looked_at and not self._faults:
            return "it has no signature"
        if not self._verified:
            seen = "; ".join(f"{fault} ({count})" for fault, count in self._faults.items())
            return f"no signature of it is good: {seen}"
        if self._signers_for(msgspec.structs.replace(rule, annotations={}, match_reference=False)) == (
            signers := self._signers_for(rule)
        ):
            lacking = sorted(key.name for key in rule.keys if key not in signers)
            return (
                f"it is not signed with {' and '.join(lacking) if rule.needed > 1 else ' or '.join(lacking)}"
            )
        wanted = ", ".join(f"{name}={value}" for name, value in sorted(rule.annotations.items()))
        told = [f"has the annotations {wanted}"] if wanted else []
        told += [f"is for {self._image.name}"] if rule.match_reference else []
        return f"no signature of it with the right key {' and '.join(told)}"

    async def _signatures(self, deadline: Deadline) -> AsyncIterator[ImageSignature]:
        """Yield the signatures of the image: those of its tag, then those that refer to it."""
        tag = f"{self._digest.replace(':', '-')}.sig"
        manifest = await self._client.manifest(self._image, tag, deadline)
        for layer in manifest.layers if manifest is not None else ():
            if (signature := await self._read(layer, deadline)) is not None:
                yield signature
        for referrer in await self._client.referrers(self._image, self._digest, deadline):
            if not _may_sign(referrer):
                continue
            if self._referrers == MAX_SIGNATURES:
                self._faults[f"more than {MAX_SIGNATURES} are not looked at"] = 1
                return
            self._referrers += 1
            for layer in await self._layers(referrer, deadline):
                if (signature := await self._read(layer, deadline)) is not None:
                    yield signature

    async def _layers(self, referrer: Descriptor, deadline: Deadline) -> Sequence[Descriptor]:
        with self._counting_faults():
            manifest = await self._client.manifest(self._image, referrer.digest, deadline)
            return manifest.layers if manifest is not None else ()
        return ()

    async def _read(self, layer: Descriptor, deadline: Deadline) -> ImageSignature | None:
        """Read a layer of a manifest; None if it is no signature, or none that can be read."""
        if layer.media_type not in {SIMPLE_SIGNING_TYPE, *BUNDLE_TYPES} or not self._may_look():
            return None
        with self._counting_faults():
            content = await self._client.blob(self._image, layer, deadline)
            if layer.media_type in BUNDLE_TYPES:
                return read_bundle(content)
            return read_simple_signing(content, (layer.annotations or {}).get(_SIGNATURE_ANNOTATION, ""))
        return None

    @contextlib.contextmanager
    def _counting_faults(self) -> Iterator[None]:
        """Go on where one signature is of no use: there may be a good one beside it."""
        try:
            yield
        except (UnusableSignatureError, RegistryError) as error:
            self._faults[str(error)] += 1

    def _may_look(self) -> bool:
        """Count one more signature; False if there were enough of them."""
        if self._looked_at == MAX_SIGNATURES:
            self._faults[f"more than {MAX_SIGNATURES} are not looked at"] = 1
            return False
        self._looked_at += 1
        return True


def _may_sign(referrer: Descriptor) -> bool:
    """Whether a referrer may be a signature: a bundle that says that it attests something need not be read."""
    if referrer.artifact_type not in _SIGNATURE_TYPES or not is_digest(referrer.digest):
        return False
    return (referrer.annotations or {}).get(_PREDICATE_ANNOTATION, SIGN_PREDICATE) == SIGN_PREDICATE
