"""Spellings: other ways to write a word, which somebody may take for the same, and Kubernetes does not."""

from __future__ import annotations

import unicodedata

_LOOKALIKES = str.maketrans("AaCcEeIiOoPpSsXxTH", "АаСсЕеІіОоРрЅѕХхТН")  # noqa: RUF001 - that is what they are for
_WIDE = {code: code + 0xFEE0 for code in range(0x21, 0x7F)}


def spellings(word: str) -> list[str]:
    """The word itself, and others that differ from it in case, in spaces, or in what the eye does not see."""
    found = [
        word,
        word.lower(),
        word.upper(),
        word.title(),
        word.swapcase(),
        f" {word}",
        f"{word} ",
        f"\t{word}\n",
        f"{word}\u00a0",
        f"\u200b{word}",
        f"{word}\ufeff",
        f"{word[:1]}\u0301{word[1:]}",
        word.translate(_LOOKALIKES),
        word.translate(_WIDE),
        unicodedata.normalize("NFKD", word) + "\u0000",
        f'"{word}"',
        f"{word},{word}",
        f"CAP_{word}",
        word.replace("_", "-"),
        f"{word}/..",
        "",
    ]
    return list(dict.fromkeys(found))
