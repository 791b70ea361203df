"""JSON texts that no API server writes: what readers make of them differs, or takes all of their memory."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

_WHERE = ", in the object or array that begins at byte "

HOSTILE: Mapping[str, tuple[bytes, str]] = MappingProxyType(
    {
        "a member twice": (b'{"a":{"b":1,"b":2}}', f"holds a member twice{_WHERE}5"),
        "a member twice, once in disguise": (b'{"ab":1,"\\u0061b":2}', f"holds a member twice{_WHERE}0"),
        "a member twice beside colons in disguise": (
            b'{"c":"\\u003a\\u003A","a":1,"a":2}',
            f"holds a member twice{_WHERE}0",
        ),
        "a member twice beside one colon in disguise": (
            b'{"c":"\\u003a","a":1,"a":2}',
            f"holds a member twice{_WHERE}0",
        ),
        "a member twice beside one colon in capitals": (
            b'{"c":"\\u003A","a":1,"a":2}',
            f"holds a member twice{_WHERE}0",
        ),
        "a member twice beside a name with a colon in capitals": (
            b'{"c\\u003A":3,"a":1,"a":2}',
            f"holds a member twice{_WHERE}0",
        ),
        "4,301 digits": (b'{"a":%s}' % (b"1" * 4301), f"holds a number out of the range of float64{_WHERE}0"),
        "310 digits": (b'{"a":[-%s]}' % (b"9" * 310), f"holds a number out of the range of float64{_WHERE}5"),
        "1e400": (b'{"a":-1e400}', f"holds a number out of the range of float64{_WHERE}0"),
        "a NUL in a name": (b'{"a\\u0000":1}', f"holds a member whose name has a NUL{_WHERE}0"),
        "201 levels": (
            b'{"a":%s}' % (b"[" * 200 + b"]" * 200),
            "is nested too deeply: it has more than 200 levels",
        ),
        "600,001 values": (b'{"a":[%s1]}' % (b"1," * 600_000), "holds more than 600000 values"),
        "NaN": (b'{"a":NaN}', "is not JSON"),
        "Infinity": (b'{"a":-Infinity}', "is not JSON"),
        "half of a character": (b'{"a":"\\ud800"}', "is not JSON"),
        "half of a character beside a doubtful escape": (b'{"a":"\\u0000\\udfff"}', "is not JSON"),
        "bytes that are no UTF-8": (b'{"a":"\xff"}', "is not JSON"),
        "UTF-16": ('{"a":1}'.encode("utf-16"), "is not JSON"),
        "a byte order mark": (b'\xef\xbb\xbf{"a":1}', "is not JSON"),
        "two values": (b'{"a":1}{"a":1}', "is not JSON"),
    }
)
"""By problem: an object, and the message after its name. Messages about text that is not JSON may go on."""

HARMLESS: Mapping[str, bytes] = MappingProxyType(
    {
        "the largest integers": b'{"a":9223372036854775807,"b":-9223372036854775808}',
        "2^63": b'{"a":9223372036854775808}',
        "2^64": b'{"a":[18446744073709551616]}',
        "1e20, as Go writes it": b'{"a":-100000000000000000000}',
        "2^53 + 1": b'{"a":9007199254740993}',
        "zeros behind a point": b'{"a":1.00000000000000000000000000000}',
        "digits in a string": b'{"a":"11111111111111111111111111111111"}',
        "a NUL in a value": b'{"a":"\\u0000"}',
        "names that differ by case": b'{"allowed":1,"Allowed":2}',
        "a name in two objects": b'{"a":{"a":1},"b":[{"a":1},{"a":2}]}',
        "colons in strings": b'{"a:b":"c:d","e":"\\":","f":"\\u003a"}',
        "brackets in strings": b'{"a":"%s","b":"\\\\\\"[{"}' % (b"[{" * 300),
        "200 levels": b'{"a":%s}' % (b"[" * 199 + b"]" * 199),
        "a list of commas": b'{"a":"%s"}' % (b"," * 700_000),
        "spaces": b' { "a" : [ 1 , 2 ] } ',
    }
)
"""What looks like one of those, and is none."""
