"""How a database fails, in words that can be shown."""

from __future__ import annotations

import msgspec
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from pratique.ledgers.integrity import DamageError
from pratique.quantities import QuantityError

FAILURES = (SQLAlchemyError, OSError, msgspec.DecodeError, QuantityError, DamageError)
"""What asking a database raises, and what reading rows raises that are not a ledger's."""


def reason(error: BaseException) -> str:
    """Say why storage could not be asked, without rows, statements or passwords."""
    if isinstance(error, DBAPIError) and error.orig is not None:
        # drivers name the host, the user and the fault; more lines would quote the statement
        return str(error.orig).partition("\n")[0].strip() or type(error.orig).__name__
    if isinstance(error, DamageError):
        return str(error)
    if isinstance(error, OSError):
        return f"{error.filename or 'storage'}: {error.strerror or type(error).__name__}"
    if isinstance(error, msgspec.DecodeError | QuantityError):
        return "it holds what no ledger wrote"
    return type(error).__name__
