"""From the data of a document to a webhook configuration as it is written."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from pratique.configurations.webhooks import (
    ConfigurationDocument,
    ConfigurationKind,
    ValidatingConfigurationDocument,
)
from pratique.strict_decoding import decode_strictly

if TYPE_CHECKING:
    from pratique.json_values import JSON


def decode_configuration(data: JSON) -> ConfigurationDocument:
    """Decode a configuration without defaults.

    Raises:
        StrictDecodingError: a member is unknown or of another type.
    """
    if data.get("kind") != ConfigurationKind.VALIDATING.value:
        return decode_strictly(data, ConfigurationDocument)
    narrow = decode_strictly(data, ValidatingConfigurationDocument)
    return msgspec.convert(narrow, ConfigurationDocument, from_attributes=True)
