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

from pratique.apimachinery.errors import CallError, ConfigurationError, RefusalError
from pratique.apimachinery.json_values import JSONObject, member
from pratique.apimachinery.patterns import pattern
from pratique.apimachinery.prepared_types import prepared
from pratique.apimachinery.quantities import Quantity
from pratique.apimachinery.statuses import go_quoted
from pratique.cluster.store import Cluster
from pratique.configuration.admission_configuration import load_plugin_configurations
from pratique.configuration.settings import ChainSettings

_ZERO = Quantity(0)
_ENCODER = msgspec.json.Encoder(order="sorted")
_DECODER = msgspec.json.Decoder(prepared(dict[str, str]))


_CHECKSUM_DIGITS = 8
"""The digits of a CRC-32 in hexadecimal. A database verifies the structure of its pages, but not the texts in them."""


def encode_usage(usage: Usage) -> str:
    """Encode usage: a checksum, then a JSON object of canonical quantities. Equal usage gives equal texts."""
    written = _ENCODER.encode({name: str(amount) for name, amount in usage.items()})
    return _checksum(written) + written.decode()


def decode_usage(text: str) -> dict[str, Quantity]:
    """Decode usage.

    Raises:
        msgspec.DecodeError: :func:`encode_usage` did not write the text.
        QuantityError: An amount is not a quantity.
    """
    if not has_valid_checksum(text):
        raise msgspec.DecodeError("the checksum does not match")
    return {name: Quantity.parse(amount) for name, amount in _DECODER.decode(text[_CHECKSUM_DIGITS:]).items()}


def has_valid_checksum(text: object) -> bool:
    """Whether a text has the checksum that :func:`encode_usage` writes."""
    if not isinstance(text, str):
        return False
    return text[:_CHECKSUM_DIGITS] == _checksum(text[_CHECKSUM_DIGITS:].encode("utf-8", "surrogatepass"))


def _checksum(written: bytes) -> str:
    return f"{zlib.crc32(written):08x}"


def increases(old: Usage, new: Usage) -> dict[str, Quantity]:
    """The amounts that increased from ``old`` to ``new``. Decreases are left out: others may not use them yet."""
    differences = {name: amount - old.get(name, _ZERO) for name, amount in new.items()}
    return {name: more for name, more in differences.items() if more.sign > 0}


def sum_usage(usages: Iterable[Mapping[str, Quantity]]) -> dict[str, Quantity]:
    """Sum usages by resource name."""
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
"""Given the current usage of each account, returns the new usage; None leaves an account unchanged.

Raises RefusalError to refuse the charge. It must be free of side effects and depend only on its argument: it runs in
a thread, and it may run several times per charge, because a refusal is first tried without a lock."""

UsageOf: TypeAlias = "Callable[[JSONObject, Cluster], Usage]"
"""Counts the usage of a ResourceQuota from a cluster's objects."""


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """The account of one ResourceQuota."""

    namespace: str
    name: str
    uid: str
    """Its ``metadata.uid``; empty if it has none. A quota with another uid is a new one, so its usage starts anew."""
    initial_usage: Callable[[], Usage]
    """Counts the initial usage; called only if the ledger does not know the account yet."""

    @property
    def key(self) -> AccountKey:
        """What identifies the account."""
        return self.namespace, self.name, self.uid


class Charge(msgspec.Struct, frozen=True, kw_only=True):
    """What a charge is for. Reconciliation uses it to find out whether the object has arrived in the cluster."""

    group: str
    resource: str
    namespace: str
    name: str
    uid: str
    """The object's ``metadata.uid``; empty if unknown."""
    old_resource_version: str | None = None
    """None for a CREATE. For an UPDATE: the ``metadata.resourceVersion`` of the old object; empty if it had none. The
    old object exists and was charged before; the update has arrived once the version is later."""
    request_uid: str = ""
    """The uid of the charged request."""
    is_retry: bool = False
    """True if the request may have been charged already, by a service that died before it could answer. If the ledger
    has a charge for the same request and object, it does not charge again."""


class LedgerState(msgspec.Struct, frozen=True):
    """The progress of a ledger."""

    turn: int
    latest: int
    """The number of the last charge."""
    settled: int
    """The number of the last charge that was dropped."""
    accounts: Sequence[AccountKey] | None
    """All accounts for the service whose turn it is to reconcile; None for all others."""


class Ledger(Protocol):
    """Where charges are kept. Several services may share the storage behind it."""

    async def charge(self, accounts: Sequence[Account], charge: Charge, decide: Decide) -> None:
        """Charge all accounts or none. Once this returns, the charge is durable.

        ``decide`` runs in a transaction that locks the accounts: it gets their usage in the order of ``accounts``,
        and its result is written.

        Raises:
            RefusalError: ``decide`` refused. Nothing is charged.
            CallError: Storage failed; the text says why. The request must be denied. If the connection broke during
                the commit, the charge may persist until reconciliation.
        """

    async def usage(self, accounts: Sequence[Account]) -> Sequence[Usage]:
        """The usage of each account, in their order, for dry runs. It writes nothing and creates no account.

        Raises:
            CallError: Storage failed; the text says why.
        """

    async def reconcile(self, cluster: Cluster, period_seconds: float, usage_of: UsageOf) -> bool:
        """Set every account to what the cluster's objects use plus the charges whose objects have not arrived yet.

        Accounts whose quota was deleted from the cluster are deleted.

        Returns:
            False if nothing was due: another service reconciled less than ``period_seconds`` ago.

        Raises:
            CallError: Storage failed; the text says why.
        """

    async def accounts(self) -> Mapping[AccountKey, Usage]:
        """The usage of every known account. It writes nothing and creates no ledger.

        Raises:
            CallError: Storage failed; the text says why.
        """

    @property
    def seen(self) -> Mapping[AccountKey, Usage]:
        """What :meth:`accounts` would have returned at the last attempt to reconcile."""

    async def close(self) -> None:
        """Close connections and threads."""


_log = logging.getLogger(__name__)


async def reconcile_every(ledger: Ledger, cluster: Cluster, period_seconds: float, usage_of: UsageOf) -> None:
    """Reconcile a ledger with a cluster every period until cancelled, first after one period.

    If storage fails, or what a live cluster has is not known, that is logged, and the next period tries again.
    """
    while True:
        await asyncio.sleep(period_seconds)
        try:
            await ledger.reconcile(cluster, period_seconds, usage_of)
        except (CallError, RefusalError) as error:
            _log.warning("quotas were not reconciled", extra={"reason": str(error)})


def open_ledger(url: str) -> Ledger:
    """Make a ledger. It connects, and creates its tables, on first use.

    Args:
        url: Empty for memory; a path or ``sqlite:///path`` for a SQLite file; ``postgresql://…``.

    Raises:
        ConfigurationError: The URL is invalid; the text says what is valid, and contains no password.
    """
    from pratique.controllers.quota.sql_ledger import SQLLedger  # noqa: PLC0415 - it starts threads; few services charge

    return SQLLedger(url)


_URL = pattern(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)
_POSTGRESQL = pattern(
    r"(?:(?P<user>[^:@/?#]*)(?::(?P<password>[^@/?#]*))?@)?"
    r"(?P<host>[^:@/?#\[\]]*|\[[0-9A-Fa-f:.]+\])(?::(?P<port>[0-9]{1,5}))?"
    r"/(?P<database>[^/?#]+)(?:\?[^#]*)?"
)
"""The rest of a URL after ``postgresql://``. It is parsed here because importing SQLAlchemy would double a service's
start-up time."""
_MEMORY_URLS = frozenset({"", ":memory:", "sqlite://", "sqlite:///:memory:"})
_USAGE = "give a file's path, sqlite:///PATH or postgresql://USER@HOST:PORT/DATABASE"
_SETTING = "resource-quota-ledger"


class LedgerStorage(enum.Enum):
    """The kind of storage behind a ledger."""

    MEMORY = "memory"
    SQLITE = "sqlite"
    POSTGRESQL = "postgresql"


@dataclasses.dataclass(frozen=True, slots=True)
class LedgerLocation:
    """The parsed URL of a ledger."""

    storage: LedgerStorage
    display_url: str
    """For display; it never contains a password."""
    path: Path | None = None
    """The file of SQLite."""
    address: str = dataclasses.field(default="", repr=False)
    """PostgreSQL's URL without its scheme; it may contain a password."""

    @property
    def exists(self) -> bool:
        """Whether there may be a ledger already, or was: never in memory, nor in a path that never had a file."""
        if self.path is not None:
            return self.path.exists() or identity_file(self.path).exists()
        return self.storage is LedgerStorage.POSTGRESQL


def identity_file(path: Path) -> Path:
    """The file beside a ledger that proves its existence even after the ledger is lost."""
    return path.with_name(f"{path.name}.identity")


def parse_ledger_url(url: str) -> LedgerLocation:
    """Parse the URL of a ledger.

    Raises:
        ConfigurationError: The URL is invalid; the text says what is valid, and contains no password.
    """
    if url in _MEMORY_URLS:
        return LedgerLocation(LedgerStorage.MEMORY, "memory")
    match = _URL.fullmatch(url)
    if match is None:
        return _file_location(url)
    scheme, rest = match.group(1).lower(), match.group(2)
    if scheme == "sqlite":
        return _file_location(_sqlite_path(rest))
    if scheme in {"postgresql", "postgres", "postgresql+psycopg"}:
        return _postgresql_location(rest)
    raise ConfigurationError(f"{_SETTING}: unknown scheme {go_quoted(scheme)}: {_USAGE}")


def _file_location(path: str) -> LedgerLocation:
    if "\0" in path:
        raise ConfigurationError(f"{_SETTING}: a path cannot contain NUL: {_USAGE}")
    # absolute at once, so that it stays the same file in any working directory
    absolute = Path(path).absolute()
    return LedgerLocation(LedgerStorage.SQLITE, str(absolute), path=absolute)


def _sqlite_path(rest: str) -> str:
    if not rest.startswith("/") or rest == "/":
        raise ConfigurationError(f"{_SETTING}: sqlite:// must be followed by a slash and a path: {_USAGE}")
    return rest[1:]


def _postgresql_location(rest: str) -> LedgerLocation:
    match = _POSTGRESQL.fullmatch(rest)
    if match is None or int(match["port"] or 1) not in range(1, 65536):
        raise ConfigurationError(f"{_SETTING}: the rest after postgresql:// is malformed: {_USAGE}")
    user = f"{match['user']}@" if match["user"] else ""
    port = f":{match['port']}" if match["port"] else ""
    display_url = f"postgresql://{user}{match['host']}{port}/{match['database']}"
    return LedgerLocation(LedgerStorage.POSTGRESQL, display_url, address=rest)


_PLUGIN = "ResourceQuota"
_FLAG = "resource-quota-ledger"
_DEFAULT_FILE = Path("pratique", "quotas.sqlite")


def has_ledger_url(settings: ChainSettings) -> bool:
    """Whether a flag or the AdmissionConfiguration names a ledger.

    Raises:
        ConfigurationError: The file is invalid.
    """
    return member(load_plugin_configurations(settings).get(_PLUGIN), _FLAG) is not None


def ledger_url(settings: ChainSettings) -> str:
    """The URL of the ledger that a single validator with these settings uses.

    Raises:
        ConfigurationError: The file is invalid.
    """
    url = member(load_plugin_configurations(settings).get(_PLUGIN), _FLAG)
    return str(default_ledger_file() if url is None else url)


def with_ledger_url(settings: ChainSettings, url: str) -> ChainSettings:
    """The settings with the ledger at ``url``, whatever they named before."""
    flags = {**settings.plugin_flags.get(_PLUGIN, {}), _FLAG: url}
    return dataclasses.replace(settings, plugin_flags={**settings.plugin_flags, _PLUGIN: flags})


def with_default_ledger(settings: ChainSettings) -> ChainSettings:
    """The settings with a ledger in the default file if they name none, so that usage survives the process.

    Raises:
        ConfigurationError: The file is invalid.
    """
    return settings if has_ledger_url(settings) else with_ledger_url(settings, str(default_ledger_file()))


def default_ledger_file() -> Path:
    """The default ledger file of a service on this machine: in the state folder of systemd or XDG."""
    # systemd separates several folders of a unit with colons
    of_unit = os.environ.get("STATE_DIRECTORY", "").split(":")[0]
    of_user = os.environ.get("XDG_STATE_HOME", "")
    # XDG says to ignore relative paths
    folder = next((path for path in map(Path, (of_unit, of_user)) if path.is_absolute()), None)
    return (folder or _home_folder() / ".local" / "state") / _DEFAULT_FILE


def _home_folder() -> Path:
    try:
        return Path.home()
    except RuntimeError:  # a user without a home: the first charge will report that it cannot be written
        return Path("/")
