"""All configurations: the webhook configurations and policies of one chain. Reading them is in :mod:`.load`."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pratique.configurations.policies import (
        BindingSpec,
        Configured,
        MutatingSpec,
        ValidatingBindingSpec,
        ValidatingSpec,
    )
    from pratique.configurations.webhooks import WebhookConfiguration


@dataclasses.dataclass(frozen=True, slots=True)
class Configurations:
    """All webhook configurations, in the order in which they are called, and all policies."""

    mutating: tuple[WebhookConfiguration, ...] = ()
    validating: tuple[WebhookConfiguration, ...] = ()
    mutating_policies: tuple[Configured[MutatingSpec], ...] = ()
    mutating_bindings: tuple[Configured[BindingSpec], ...] = ()
    validating_policies: tuple[Configured[ValidatingSpec], ...] = ()
    validating_bindings: tuple[Configured[ValidatingBindingSpec], ...] = ()
    """Some may bind policies that are not there: they do nothing, as in a cluster."""
