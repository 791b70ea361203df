"""The settings that every service of one chain shares, and where other people's controllers run."""

from __future__ import annotations

import dataclasses
import enum
from typing import TYPE_CHECKING

from pratique.configuration.inputs import GRACE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pratique.apimachinery.json_values import JSON
    from pratique.configuration.releases import Release


class Isolation(enum.StrEnum):
    """What stands between a service and the controllers of installed packages. Pratique's own run in the service."""

    PROCESS = "process"
    """A process for each: one that spins, crashes its interpreter or is killed costs its own outcome alone."""
    THREAD = "thread"
    """The service's own process, in threads and tasks: without the memory and the hop, and on trust."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ChainSettings:
    """What is in the chain and what it knows: the flags that all services take alike."""

    config: tuple[Path, ...] = ()
    """Files and folders of webhook configurations and policies."""
    cluster: tuple[Path, ...] | None = None
    """Files and folders of the objects that controllers look up. None: every namespace exists, and nothing else."""
    enable_admission_plugins: tuple[str, ...] = ()
    """Controllers beside the default ones."""
    disable_admission_plugins: tuple[str, ...] = ()
    """Default controllers to leave out."""
    admission_control: tuple[str, ...] | None = None
    """The exact list, in that order; None: the default set with what the two lists above change."""
    admission_control_config_file: Path | None = None
    """An ``AdmissionConfiguration``; None: every controller has its defaults."""
    plugin_flags: Mapping[str, Mapping[str, JSON]] = dataclasses.field(default_factory=dict)
    """What flags say to controllers: by a controller's name, settings under the flags' names."""
    release: Release | None = None
    """The Kubernetes release that controllers follow; None: the current one."""
    reload_grace_seconds: float = GRACE_SECONDS
    """How long what files held before they changed is kept, so that those who notice later can be agreed with."""
    first_denial_only: bool = False
    """Answer with one denial, as the API server does, instead of with all."""
