"""The entrance: how callers reach the front door, over what, and who is let in."""

from __future__ import annotations

import functools
import logging
from typing import TYPE_CHECKING, Any

from frontdoor.authentication.callers import Callers
from frontdoor.authentication.secret_files import read_logins, read_tokens
from frontdoor.certificates import PAIR_FLAGS, Certificate
from pratique.errors import ConfigurationError
from pratique.tls.authorities import read_client_authorities
from pratique.tls.clients import ClientCertificates
from pratique.tls.kept import Kept

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from frontdoor.authentication.digests import Digests
    from frontdoor.settings import FrontDoorSettings
    from pratique.tls.authorities import Authorities

_log = logging.getLogger(__name__)


class Entrance:
    """What is read of files about it, and read again when they change."""

    def __init__(self, settings: FrontDoorSettings) -> None:
        """Read everything.

        Raises:
            ConfigurationError: a file cannot be used, or is given without another that it needs.
        """
        authorities = _authorities(settings.client_ca_file)
        self.certificate = Certificate.of(settings, authorities)
        """What the front door proves itself with; None for plain HTTP."""
        _check(settings, self.certificate)
        tokens = _secrets("bearer tokens", settings.token_file, read_tokens)
        logins = _secrets("users and passwords", settings.basic_auth_file, read_logins)
        self.callers = None
        """Who is let in; None for everybody."""
        if any(one is not None for one in (authorities, tokens, logins)):
            names = settings.client_allowed_names
            known = None if authorities is None else ClientCertificates(authorities, names)
            self.callers = Callers(known, tokens, logins)
        pair = None if self.certificate is None else self.certificate.pair
        self.kept: tuple[Kept[Any], ...] = tuple(
            one for one in (pair, authorities, tokens, logins) if one is not None
        )
        """What is read again, and how it is with each."""
        self._authorities, self._secrets = authorities, [one for one in (tokens, logins) if one is not None]

    def closed(self) -> Sequence[str]:
        """Why nobody at all is let in: files that held who may call hold nobody any more. Empty where some are."""
        ways = [(one.failure, bool(one.value.held)) for one in self._secrets]
        if self._authorities is not None:
            ways.append((self._authorities.failure, bool(self._authorities.value.certificates)))
        if not ways or any(is_open for _, is_open in ways):
            return ()
        return [f"nobody may call: {failure}" for failure, _ in ways]


def _check(settings: FrontDoorSettings, certificate: Certificate | None) -> None:
    if settings.client_allowed_names and settings.client_ca_file is None:
        raise ConfigurationError(
            "--client-allowed-names needs --client-ca-file, which says whose names they are"
        )
    if certificate is not None:
        return
    if settings.client_ca_file is not None:
        raise ConfigurationError(f"--client-ca-file needs HTTPS: give {' and '.join(PAIR_FLAGS)} as well")
    if settings.token_file is not None or settings.basic_auth_file is not None:
        reason = "--token-file and --basic-auth-file without TLS: whoever sees the network sees the secrets"
        _log.warning("secrets come in plain text", extra={"reason": reason})


def _authorities(file: Path | None) -> Kept[Authorities] | None:
    if file is None:
        return None
    read = functools.partial(read_client_authorities, file, "--client-ca-file")
    return Kept("client authorities", read, (file,), ends_at=lambda bundle: bundle.ends_at)


def _secrets(name: str, file: Path | None, read: Callable[[Path], Digests]) -> Kept[Digests] | None:
    return None if file is None else Kept(name, functools.partial(read, file), (file,))
