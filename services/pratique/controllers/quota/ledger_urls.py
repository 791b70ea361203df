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

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)
_POSTGRESQL = re.compile(
    r"(?:(?P<user>[^:@/?#]*)(?::(?P<password>[^@/?#]*))?@)?"
    r"(?P<host>[^:@/?#\[\]]*|\[[0-9A-Fa-f:.]+\])(?::(?P<port>[0-9]{1,5}))?"
    r"/(?P<database>[^/?#]+)(?:\?[^#]*)?"
)
"""What follows ``postgresql://``. It is read here because importing SQLAlchemy would double a service's start."""
_MEMORY_URLS = frozenset({"", ":memory:", "sqlite://", "sqlite:///:memory:"})
_USAGE = "give a file's path, sqlite:///PATH or postgresql://USER@HOST:PORT/DATABASE"
_SETTING = "resource-quota-ledger"


class LedgerStorage(enum.Enum):
    """What a ledger is kept in."""

    MEMORY = "memory"
    SQLITE = "sqlite"
    POSTGRESQL = "postgresql"


@dataclasses.dataclass(frozen=True, slots=True)
class LedgerLocation:
    """Where a ledger is."""

    storage: LedgerStorage
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
            return self.path.exists() or identity_file(self.path).exists()
        return self.storage is LedgerStorage.POSTGRESQL


def identity_file(path: Path) -> Path:
    """The file beside a ledger that tells of it once the ledger itself is gone."""
    return path.with_name(f"{path.name}.identity")


def parse_ledger_url(url: str) -> LedgerLocation:
    """Read where a ledger is.

    Raises:
        ConfigurationError: the URL cannot be used; the text says what would be right, and shows no password.
    """
    if url in _MEMORY_URLS:
        return LedgerLocation(LedgerStorage.MEMORY, "memory")
    found = _URL.fullmatch(url)
    if found is None:
        return _file_location(url)
    scheme, rest = found.group(1).lower(), found.group(2)
    if scheme == "sqlite":
        return _file_location(_sqlite_path(rest))
    if scheme in {"postgresql", "postgres", "postgresql+psycopg"}:
        return _postgresql_location(rest)
    raise ConfigurationError(f"{_SETTING}: the scheme {go_quoted(scheme)} is not known: {_USAGE}")


def _file_location(path: str) -> LedgerLocation:
    if "\0" in path:
        raise ConfigurationError(f"{_SETTING}: a path holds no NUL: {_USAGE}")
    # absolute at once, so that it stays the same file wherever the process goes
    absolute = Path(path).absolute()
    return LedgerLocation(LedgerStorage.SQLITE, str(absolute), path=absolute)


def _sqlite_path(rest: str) -> str:
    if not rest.startswith("/") or rest == "/":
        raise ConfigurationError(f"{_SETTING}: sqlite:// is followed by a slash and a path: {_USAGE}")
    return rest[1:]


def _postgresql_location(rest: str) -> LedgerLocation:
    found = _POSTGRESQL.fullmatch(rest)
    if found is None or int(found["port"] or 1) not in range(1, 65536):
        raise ConfigurationError(f"{_SETTING}: postgresql:// is not followed by what it should be: {_USAGE}")
    user = f"{found['user']}@" if found["user"] else ""
    port = f":{found['port']}" if found["port"] else ""
    shown = f"postgresql://{user}{found['host']}{port}/{found['database']}"
    return LedgerLocation(LedgerStorage.POSTGRESQL, shown, address=rest)


_PLUGIN = "ResourceQuota"
_FLAG = "resource-quota-ledger"
_DEFAULT_FILE = Path("pratique", "quotas.sqlite")


def has_ledger_url(settings: ChainSettings) -> bool:
    """Tell whether a flag or the AdmissionConfiguration says where charges are kept.

    Raises:
        ConfigurationError: the file cannot be used.
    """
    return member(load_plugin_configurations(settings).get(_PLUGIN), _FLAG) is not None


def ledger_url(settings: ChainSettings) -> str:
    """Where a validator alone keeps charges that has these settings.

    Raises:
        ConfigurationError: the file cannot be used.
    """
    said = member(load_plugin_configurations(settings).get(_PLUGIN), _FLAG)
    return str(default_ledger_file() if said is None else said)


def with_ledger_url(settings: ChainSettings, url: str) -> ChainSettings:
    """Keep the charges of a chain at ``url``, whatever it said before."""
    flags = {**settings.plugin_flags.get(_PLUGIN, {}), _FLAG: url}
    return dataclasses.replace(settings, plugin_flags={**settings.plugin_flags, _PLUGIN: flags})


def default_ledger_file() -> Path:
    """Where a service of this machine keeps its charges: in the folder for state, of systemd or of XDG."""
    # systemd names several folders with colons between them where a unit has several
    of_unit = os.environ.get("STATE_DIRECTORY", "").split(":")[0]
    of_user = os.environ.get("XDG_STATE_HOME", "")
    # XDG has what is relative ignored
    folder = next((each for each in map(Path, (of_unit, of_user)) if each.is_absolute()), None)
    return (folder or _home_folder() / ".local" / "state") / _DEFAULT_FILE


def _home_folder() -> Path:
    try:
        return Path.home()
    except RuntimeError:  # a user without a home: nothing can be written there, and a charge will say so
        return Path("/")
