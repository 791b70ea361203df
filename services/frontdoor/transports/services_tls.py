"""TLS between the front door and its services: whom it believes, and what it proves itself with.

gRPC channels are made with their credentials for good, so a change of files makes new ones: these connect first, and
the calls under way finish on the old ones.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import grpc

from pratique.errors import ConfigurationError
from pratique.tls.authorities import read_authorities
from pratique.tls.kept import Kept
from pratique.tls.pairs import PairFiles, read_pair

if TYPE_CHECKING:
    from frontdoor.settings import FrontDoorSettings

_PAIR_FLAGS = ("--services-cert-file", "--services-private-key-file")


class ServicesTls:
    """What every channel to the mutator and the validators is made with."""

    def __init__(self, settings: FrontDoorSettings) -> None:
        """Read the files.

        Raises:
            ConfigurationError: one cannot be used, or is given without another that it needs.
        """
        files = PairFiles.given(settings.services_cert_file, settings.services_private_key_file, _PAIR_FLAGS)
        authority_file = settings.services_ca_file
        self._pair = None
        if files is not None:
            read = functools.partial(read_pair, files)
            self._pair = Kept(
                "services client certificate", read, files.paths, ends_at=lambda pair: pair.ends_at
            )
        self._authorities = None
        if authority_file is not None:
            read_bundle = functools.partial(read_authorities, authority_file, "--services-ca-file")
            self._authorities = Kept(
                "services authorities", read_bundle, (authority_file,), ends_at=lambda bundle: bundle.ends_at
            )
        self.kept: tuple[Kept[Any], ...] = tuple(
            one for one in (self._pair, self._authorities) if one is not None
        )
        """What is read again, and how it is with each."""

    @classmethod
    def of(cls, settings: FrontDoorSettings) -> ServicesTls | None:
        """The TLS that the settings ask for; None where services are asked without.

        Raises:
            ConfigurationError: as above, or names are given for services that are not to show any.
        """
        tls = cls(settings)
        if tls.kept:
            _check_names(settings)
            return tls
        for flag, name in _names(settings):
            if name:
                raise ConfigurationError(f"{flag} needs TLS: give --services-ca-file as well")
        return None

    def credentials(self) -> grpc.ChannelCredentials:
        """Make what a channel is opened with, of what is in the files now."""
        bundle = None if self._authorities is None else self._authorities.value.pem
        if self._pair is None:
            return grpc.ssl_channel_credentials(bundle)
        pair = self._pair.value
        return grpc.ssl_channel_credentials(bundle, pair.key, pair.chain)


def _names(settings: FrontDoorSettings) -> tuple[tuple[str, str], ...]:
    return (
        ("--mutator-server-name", settings.mutator_server_name),
        ("--validator-server-name", settings.validator_server_name),
    )


def _check_names(settings: FrontDoorSettings) -> None:
    if len(settings.validators) > 1 and not settings.validator_server_name:
        raise ConfigurationError(
            "--validator: several addresses with TLS need --validator-server-name, a name that is in the "
            "certificate of each"
        )
