"""Where a ledger is: what ``--resource-quota-ledger`` may say, and the place where nobody says so."""

from __future__ import annotations

import dataclasses
import enum
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from pratique.apimachinery.errors import ConfigurationError
from pratique.apimachinery.json_values import member
from pratique.apimachinery.statuses import go_quoted
from pratique.configuration.plugins import load_plugin_configurations

if TYPE_CHECKING:
    from pratique.configuration.settings import ChainSettings

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)
_POSTGRESQL = re.compile(
    r"(?:(?P<user>[^:@/?#]*)(?::(?P<password>[^@/?#]*))?@)?"
    r"(?P<host>[^:@/?#\[\]]*|\[[0-9A-Fa-f:.]+\])(?::(?P<port>[0-9]{1,5}))?"
    r"/(?P<database>[^/?#]+)(?:\?[^#]*)?"
)
"""What follows ``postgresql://``. It is read here because importing SQLAlchemy would double a service's start."""
_MEMORY = frozenset({"", ":memory:", "sqlite://", "sqlite:///:memory:"})
_RIGHT = "give a file's path, sqlite:///PATH or postgresql://USER@HOST:PORT/DATABASE"
_FIELD = "resource-quota-ledger"


class Storage(enum.Enum):
    """What a ledger is kept in."""

    MEMORY = "memory"
    SQLITE = "sqlite"
    POSTGRESQL = "postgresql"


@dataclasses.dataclass(frozen=True, slots=True)
class Place:
    """Where a ledger is."""

    storage: Storage
    shown: str
    """For people: never with a password."""
    path: Path | None = None
    """SQLite's file."""
    address: str = dataclasses.field(default="", repr=False)
    """PostgreSQL's URL without its scheme; it can hold a password."""

    @property
    def exists(self) -> bool:
        """True where there may be something already, or was: memory is empty, and so is what never had a file."""
        if self.path is not None:
            return self.path.exists() or marker_of(self.path).exists()
        return self.storage is Storage.POSTGRESQL


def marker_of(path: Path) -> Path:
    """The file beside a ledger that tells of it once the ledger itself is gone."""
    return path.with_name(f"{path.name}.identity")


def parse(url: str) -> Place:
    """Read where a ledger is.

    Raises:
        ConfigurationError: the URL cannot be used; the text says what would be right, and shows no password.
    """
    if url in _MEMORY:
        return Place(Storage.MEMORY, "memory")
    found = _SCHEME.fullmatch(url)
    if found is None:
        return _file(url)
    scheme, rest = found.group(1).lower(), found.group(2)
    if scheme == "sqlite":
        return _file(_after_slash(rest))
    if scheme in {"postgresql", "postgres", "postgresql+psycopg"}:
        return _database(rest)
    raise ConfigurationError(f"{_FIELD}: the scheme {go_quoted(scheme)} is not known: {_RIGHT}")


def _file(path: str) -> Place:
    if "\0" in path:
        raise ConfigurationError(f"{_FIELD}: a path holds no NUL: {_RIGHT}")
    # absolute at once, so that it stays the same file wherever the process goes
    absolute = Path(path).absolute()
    return Place(Storage.SQLITE, str(absolute), path=absolute)


def _after_slash(rest: str) -> str:
    if not rest.startswith("/") or rest == "/":
        raise ConfigurationError(f"{_FIELD}: sqlite:// is followed by a slash and a path: {_RIGHT}")
    return rest[1:]


def _database(rest: str) -> Place:
    found = _POSTGRESQL.fullmatch(rest)
    if found is None or int(found["port"] or 1) not in range(1, 65536):
        raise ConfigurationError(f"{_FIELD}: postgresql:// is not followed by what it should be: {_RIGHT}")
    user = f"{found['user']}@" if found["user"] else ""
    port = f":{found['port']}" if found["port"] else ""
    shown = f"postgresql://{user}{found['host']}{port}/{found['database']}"
    return Place(Storage.POSTGRESQL, shown, address=rest)


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
