"""Loads everything that a chain is made of, to tell all that is wrong with it before anything runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frontdoor.chain_sources import ChainSources
from pratique.cluster_files import load_cluster
from pratique.configurations.load import load_configurations
from pratique.errors import ConfigurationError, InputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pratique.settings import ChainSettings


def problems_of(chain: ChainSettings) -> list[str]:
    """Load all that the settings name, and list what is wrong, a line each."""
    loads: tuple[Callable[[], object], ...] = (
        lambda: load_configurations(chain.config),
        lambda: load_cluster(chain.cluster),
        lambda: _load_controllers(chain),
    )
    problems: list[str] = []
    for load in loads:
        try:
            load()
        except InputError as error:
            problems += str(error).splitlines()
    return problems


def load_everything(chain: ChainSettings) -> None:
    """See that a chain can be made of what the settings name.

    Raises:
        ConfigurationError: it cannot; a line for each reason.
    """
    problems = problems_of(chain)
    if problems:
        raise ConfigurationError("\n".join(problems))


def _load_controllers(chain: ChainSettings) -> None:
    sources = ChainSources.read(chain)
    sources.configure(sources.selected)
    sources.credentials()
