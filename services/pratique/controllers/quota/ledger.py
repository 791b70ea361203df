"""The ledger: the interface that keeps charges against ResourceQuotas, and the URLs that name one."""

from __future__ import annotations

import asyncio
import dataclasses
import enum
import logging
import os
import re
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Protocol, TypeAlias

import msgspec

from pratique.apimachinery.errors import CallError, ConfigurationError
from pratique.apimachinery.json_values import JSONObject, member
from pratique.apimachinery.quantities import Quantity
from pratique.apimachinery.statuses import go_quoted
from pratique.cluster.store import Cluster
from pratique.configuration.admission_configuration import load_plugin_configurations
from pratique.configuration.settings import ChainSettings

_ZERO = Quantity(0)
_ENCODER = msgspec.json.Encoder(order="sorted")
_DECODER = msgspec.json.Decoder(dict[str, str])


_CHECKSUM_DIGITS = 8
"""Of a CRC-32 in hexadecimal. A database checks how its pages hang together, not what the texts in them say."""


def encode_usage(usage: Usage) -> str:
    """Write usage: a checksum, and a JSON object of canonical quantities. Equal texts are equal usage."""
    written = _ENCODER.encode({name: str(amount) for name, amount in usage.items()})
    return _checksum(written) + written.decode()


def decode_usage(text: str) -> dict[str, Quantity]:
    """Read usage.

    Raises:
        msgspec.DecodeError: the text is not what ``encode_usage`` writes.
        QuantityError: one of the amounts is none.
    """
    if not has_valid_checksum(text):
        raise msgspec.DecodeError("the checksum is another")
    return {name: Quantity.parse(amount) for name, amount in _DECODER.decode(text[_CHECKSUM_DIGITS:]).items()}


def has_valid_checksum(text: object) -> bool:
    """Tell whether a text is as :func:`to_text` wrote it."""
    if not isinstance(text, str):
        return False
    return text[:_CHECKSUM_DIGITS] == _checksum(text[_CHECKSUM_DIGITS:].encode("utf-8", "surrogatepass"))


def _checksum(written: bytes) -> str:
    return f"{zlib.crc32(written):08x}"


def increases(old: Usage, new: Usage) -> dict[str, Quantity]:
    """What ``new`` has more of than ``old``. What it has less of is nothing that others may count on yet."""
    differences = {name: amount - old.get(name, _ZERO) for name, amount in new.items()}
    return {name: more for name, more in differences.items() if more.sign > 0}


def sum_usage(usages: Iterable[Mapping[str, Quantity]]) -> dict[str, Quantity]:
    """Add usage up, by resource name."""
    amounts: dict[str, Quantity] = {}
    for usage in usages:
        for name, amount in usage.items():
            amounts[name] = amounts[name] + amount if name in amounts else amount
    return amounts


Usage: TypeAlias = Mapping[str, Quantity]
"""Amounts by resource name, as in a ResourceQuota's ``status.used``: ``{"pods": 3, "requests.cpu": 500m}``."""

AccountKey: TypeAlias = tuple[str, str, str]
"""An account's namespace, name and uid."""

Decide: TypeAlias = Callable[[Sequence[Usage]], Sequence[Usage | None]]
"""Given the usage of each account, gives the new one of each; None for those that stay as they are.

Raises RefusalError to refuse. It has no effects of its own and reads nothing that changes: it runs in a thread, and
it may be asked several times for one charge, because a refusal needs no lock and is tried without one first.
"""

UsageOf: TypeAlias = "Callable[[JSONObject, Cluster], Usage]"
"""What of a ResourceQuota is used, counted from a cluster's objects."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """One ResourceQuota."""

    namespace: str
    name: str
    uid: str
    """Its ``metadata.uid``, empty where it has none. Another uid is another quota: its usage starts anew."""
    start: Callable[[], Usage]
    """Gives the usage to begin with; asked only when the ledger does not know the account yet."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Charge:
    """What a charge is for, so that reconciliation can tell whether the object is there yet."""

    group: str
    resource: str
    namespace: str
    name: str
    uid: str
    """The object's ``metadata.uid``; empty where it is not known."""
    old_resource_version: str | None = None
    """None for a CREATE. For an UPDATE: the ``metadata.resourceVersion`` of the object as it was, empty where it had
    none. The object is there already, in a form that was charged before; the update is there once it has a later
    one."""
    request_uid: str = ""
    """The uid of the request that is charged for."""
    is_retry: bool = False
    """True where the request may have been charged for already, by a service that died before it could answer. What is
    found charged for the same request and object is then not charged again."""


class Ledger(Protocol):
    """Where charges are kept. Several services may share what is behind it."""

    async def charge(self, accounts: Sequence[Account], charge: Charge, decide: Decide) -> None:
        """Charge accounts, all of them or none. Once this returns, the charge outlives this process.

        In one transaction that nobody else can charge these accounts in: ``decide`` is given the usage of each, in
        the order of ``accounts``, and what it answers is written.

        Raises:
            RefusalError: ``decide`` refused. Nothing is charged.
            CallError: storage could not be asked; the text says why. Nothing is to be let through; where the
                connection broke while the answer was on its way, the charge may be there until reconciliation.
        """

    async def usage(self, accounts: Sequence[Account]) -> Sequence[Usage]:
        """The usage of each account, in their order, for dry runs. Nothing is written, no account begun.

        Raises:
            CallError: storage could not be asked; the text says why.
        """

    async def reconcile(self, cluster: Cluster, period_seconds: float, usage_of: UsageOf) -> bool:
        """Put every account's usage right: what the cluster's objects use, and what is charged but not there yet.

        Accounts whose quota is gone from the cluster go.

        Returns:
            False where nothing was due: another service did it less than ``period_seconds`` ago.

        Raises:
            CallError: storage could not be asked; the text says why.
        """

    async def accounts(self) -> Mapping[AccountKey, Usage]:
        """The usage of every account that the ledger knows. Nothing is written, and no ledger begun.

        Raises:
            CallError: storage could not be asked; the text says why.
        """

    @property
    def seen(self) -> Mapping[AccountKey, Usage]:
        """What :meth:`accounts` would have given when the ledger was last looked at to be put right."""

    async def close(self) -> None:
        """Let go of connections and threads."""


_log = logging.getLogger(__name__)


async def reconcile_every(ledger: Ledger, cluster: Cluster, period_seconds: float, usage_of: UsageOf) -> None:
    """Reconcile a ledger with a cluster until cancelled, for the first time when one period has passed.

    Where storage cannot be asked, that is logged, and the next period tries again.
    """
    while True:
        await asyncio.sleep(period_seconds)
        try:
            await ledger.reconcile(cluster, period_seconds, usage_of)
        except CallError as error:
            _log.warning("quotas were not reconciled", extra={"reason": str(error)})


def open_ledger(url: str) -> Ledger:
    """Make a ledger. It connects, and makes its tables, when it is first used.

    Args:
        url: Empty for SQLite in memory; a path or ``sqlite:///path`` for a SQLite file; ``postgresql://…``.

    Raises:
        ConfigurationError: the URL cannot be used; the text says what would be right, and shows no password.
    """
    from pratique.controllers.quota.sql_ledger import SQLLedger  # noqa: PLC0415 - it threads and queues; few services charge

    return SQLLedger(url)


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
