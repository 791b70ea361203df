"""Where the ledger of a chain is where nobody says so, and putting it somewhere."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import TYPE_CHECKING

from pratique.json_values import member
from pratique.plugin_configurations import load_plugin_configurations

if TYPE_CHECKING:
    from pratique.settings import ChainSettings

_PLUGIN = "ResourceQuota"
_FLAG = "resource-quota-ledger"
_FILE = Path("pratique", "quotas.sqlite")


def is_placed(settings: ChainSettings) -> bool:
    """Tell whether a flag or the AdmissionConfiguration says where charges are kept.

    Raises:
        ConfigurationError: the file cannot be used.
    """
    return member(load_plugin_configurations(settings).get(_PLUGIN), _FLAG) is not None


def place_of(settings: ChainSettings) -> str:
    """Where a validator alone keeps charges that has these settings.

    Raises:
        ConfigurationError: the file cannot be used.
    """
    said = member(load_plugin_configurations(settings).get(_PLUGIN), _FLAG)
    return str(default_file() if said is None else said)


def placed(settings: ChainSettings, url: str) -> ChainSettings:
    """Keep the charges of a chain at ``url``, whatever it said before."""
    flags = {**settings.plugin_flags.get(_PLUGIN, {}), _FLAG: url}
    return dataclasses.replace(settings, plugin_flags={**settings.plugin_flags, _PLUGIN: flags})


def default_file() -> Path:
    """Where a service of this machine keeps its charges: in the folder for state, of systemd or of XDG."""
    # systemd names several folders with colons between them where a unit has several
    of_unit = os.environ.get("STATE_DIRECTORY", "").split(":")[0]
    of_user = os.environ.get("XDG_STATE_HOME", "")
    # XDG has what is relative ignored
    folder = next((each for each in map(Path, (of_unit, of_user)) if each.is_absolute()), None)
    return (folder or _home() / ".local" / "state") / _FILE


def _home() -> Path:
    try:
        return Path.home()
    except RuntimeError:  # a user without a home: nothing can be written there, and a charge will say so
        return Path("/")
