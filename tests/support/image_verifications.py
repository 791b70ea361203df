"""Verifies the images of a test's registry, by any rules."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from pratique.https.sessions import HttpsSession
from pratique.https.tls_contexts import open_client_context
from pratique.images.policies import ImageRule, ImageVerificationPolicy
from pratique.images.references import RepositoryPattern
from pratique.images.registries import RegistryClient, RegistryHost
from pratique.images.registry_credentials import RegistryCredentials, RegistryLogin
from pratique.images.verification import ImageVerdict, ImageVerifier
from support.image_registries import ImageRegistry, signer

T = TypeVar("T")


@dataclasses.dataclass(frozen=True, slots=True)
class Verifying:
    """Verifies the images of one registry."""

    images: ImageRegistry

    def ask(
        self,
        call: Callable[[RegistryClient], Awaitable[T]],
        *,
        login: str = "",
        **how: Any,
    ) -> T:
        """Call a client of the registry, which is reached as ``how`` says."""
        user, _, password = login.partition(":")
        logins = {self.images.host: RegistryLogin(user, password)} if login else {}

        async def run() -> T:
            session = HttpsSession(open_client_context(self.images.server.ca_bundle, None), None)
            try:
                host = RegistryHost(self.images.host, **how)
                return await call(RegistryClient(session, {host.host: host}, RegistryCredentials(logins)))
            finally:
                await session.close()

        return asyncio.run(run())

    def rule(self, **settings: Any) -> ImageRule:
        """A rule for all images of the registry, by the usual key if ``settings`` do not say otherwise."""
        patterns = (RepositoryPattern(f"{self.images.host}/**"),)
        return ImageRule(**{"images": patterns, "keys": (signer().public,), **settings})

    def verify(
        self, name: str = "shop/web:1.0", *rules: ImageRule, seconds: float = 30, **how: Any
    ) -> ImageVerdict:
        """Verify an image of the registry by rules, or by the usual one."""
        policy = ImageVerificationPolicy(rules or (self.rule(),))
        image = f"{self.images.host}/{name}"
        return self.ask(lambda client: ImageVerifier(policy, client).verify(image, seconds), **how)
