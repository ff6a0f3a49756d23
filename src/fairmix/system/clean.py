"""Clean text: what a stranger wrote cannot give orders to a terminal."""

from __future__ import annotations

import unicodedata

# Control characters, ESC among them; format characters, which turn text around or hide it; halves
# of characters, which no encoding has; and separators of lines and paragraphs.
UNCLEAN = {"Cc", "Cf", "Cs", "Zl", "Zp"}
# What the library itself writes, and what holds words and emoji together.
ALLOWED = {"\n", "\t", "\u200c", "\u200d"}


def clean(text: str) -> str:
    r"""Text with what is not to be shown as its escape.

    Examples
    --------
    >>> clean("a\x1b[2Jb"), clean("größe 名")
    ('a\\x1b[2Jb', 'größe 名')
    """
    # Nearly all text is clean, and this is the fast way to tell.
    if text.isprintable():
        return text
    return "".join(
        char.encode("unicode_escape").decode("ascii")
        if char not in ALLOWED and unicodedata.category(char) in UNCLEAN
        else char
        for char in text
    )
