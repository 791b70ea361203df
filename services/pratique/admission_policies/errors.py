"""What can be wrong with how a policy is set up, seen only where a request comes."""

from __future__ import annotations

from pratique.errors import PratiqueError


class SettingError(PratiqueError):
    """A policy or binding cannot be used for a request: the policy's failure policy decides.

    ``failed to configure policy: …`` and ``failed to configure binding: …`` in the API server.
    """
