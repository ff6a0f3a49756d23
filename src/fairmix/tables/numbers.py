"""Numbers as people write them in text files: 1.234,50 €, $1,234.50, 12 %, 1 234, and - for none.

What a column of text holds is known at its end: `Traits` gathers over all rows how its values could
be read, `styles_of` then decides for all columns together, and a `Style` reads them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from fairmix.system.arrow import pa, pc

# What stands between three digits and the next three in all countries: blanks, also those that do
# not break a line, and apostrophes.
GROUPING = " \u00a0\u202f'’"
MINUS = "\u2212"
# Signs and codes that may stand before or behind all numbers of a column.
UNITS = (
    *("%", "€", "$", "US$", "£", "¥", "₹", "₩", "₽", "R$", "kr", "zł", "Kč"),
    *("EUR", "USD", "GBP", "CHF", "JPY", "CNY", "INR", "SEK", "NOK", "DKK", "PLN", "CZK"),
    *("CAD", "AUD", "BRL", "KRW", "MXN", "ZAR"),
)
# Words and marks that stand for a missing number. Among texts they are left alone, because some of
# them may be names: "None" is a kind of insurance, "unknown" an answer.
STAND_INS = (
    *("-", "--", "---", "–", "—", ".", "..", "...", "*", "**"),
    *("None", "none", "NONE", "Missing", "missing", "MISSING", "Unknown", "unknown", "UNKNOWN"),
    *("n.a.", "N.A.", "na", "k.A.", "k. A.", "s/d", "nil", "(null)"),
    *("#NULL!", "#VALUE!", "#DIV/0!"),
)
NO_PART_OF_UNIT = rf"[\d.,+\-{MINUS}{GROUPING}\t]"


def _pattern(decimal: str, grouping: str) -> str:
    # A first group does not begin with zero, so 0.123 is no 123.
    whole = rf"(\d+|[1-9]\d{{0,2}}([{grouping}{GROUPING}]\d{{3}})+)"
    return rf"^[+-]? ?({whole}({decimal}\d*)?|{decimal}\d+)$"


PATTERNS = {".": _pattern(r"\.", ","), ",": _pattern(",", r"\.")}
OTHER = {".": ",", ",": "."}


@dataclass(frozen=True)
class Style:
    """How the numbers of a column are written.

    Attributes
    ----------
    decimal : {".", ","}
        What stands before tenths.
    unit : str
        What stands before or behind every number.
    stand_ins : tuple of str
        What stands for a missing number.
    """

    decimal: str = "."
    unit: str = ""
    stand_ins: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """What a person should know of it."""
        said = ["decimal comma"] if self.decimal == "," else []
        said += [self.unit] if self.unit else []
        said += [f"{text!r} is missing" for text in self.stand_ins]
        return ", ".join(said) or "grouped digits"

    def read(self, column: pa.Array) -> pa.Array:
        """A column of text as numbers.

        Examples
        --------
        >>> Style(",", "€", ("-",)).read(pa.array(["1.234,5 €", "-", None, "-7 €"])).to_pylist()
        [1234.5, None, None, -7.0]
        """
        if self.stand_ins:
            column = _without(column, self.stand_ins)
        text = _bare(column, self.unit)
        text = pc.replace_substring_regex(text, f"[{GROUPING}{OTHER[self.decimal]}]", "")
        return pc.cast(pc.replace_substring(text, self.decimal, "."), pa.float64())


# As computers write numbers: Arrow reads it by itself.
PLAIN = Style()


@dataclass(frozen=True)
class Traits:
    """How the values of a column of text could be read as numbers.

    Attributes
    ----------
    any_number : bool
        Whether one of them is a number.
    possible : bool
        Whether all of them are, or stand for a missing one.
    plain : bool
        Whether all are written as computers do it.
    point, comma : bool
        Whether all can be read with a decimal point, and with a decimal comma.
    marked : bool
        Whether some hold a point or a comma.
    unit : str
        What stands beside each.
    stand_ins : frozenset of str
        What stands for missing ones.
    """

    any_number: bool = False
    possible: bool = True
    plain: bool = True
    point: bool = True
    comma: bool = True
    marked: bool = False
    unit: str = ""
    stand_ins: frozenset[str] = frozenset()

    @property
    def is_number(self) -> bool:
        """Whether the column is one of numbers."""
        return self.possible and self.any_number

    def seen(self, column: pa.Array) -> Traits:
        """The traits of these values and of more."""
        values = column.drop_null()
        # Most columns of words are known by their first rows, so that this costs little.
        if not self.possible or not len(values):
            return self
        found = self._of(values)
        if not self.any_number:
            return replace(found, stand_ins=self.stand_ins | found.stand_ins)
        return self.merged(found)

    def merged(self, other: Traits) -> Traits:
        """The traits of the values of both."""
        stand_ins = self.stand_ins | other.stand_ins
        if not (self.possible and other.possible):
            return Traits(possible=False)
        for one, more in ((self, other), (other, self)):
            if not one.any_number:
                return replace(more, stand_ins=stand_ins)
        point, comma = self.point and other.point, self.comma and other.comma
        return Traits(
            any_number=True,
            possible=self.unit == other.unit and (point or comma),
            plain=self.plain and other.plain,
            point=point,
            comma=comma,
            marked=self.marked or other.marked,
            unit=self.unit,
            stand_ins=stand_ins,
        )

    def _of(self, values: pa.Array) -> Traits:
        """The traits of more values alone; what is settled by others is not looked for again."""
        stand_ins: frozenset[str] = frozenset()
        if not _castable(values):
            is_stand_in = pc.is_in(values, pa.array(STAND_INS))
            stand_ins = frozenset(values.filter(is_stand_in).unique().to_pylist())
            values = values.filter(pc.invert(is_stand_in))
        if not len(values):
            return Traits(stand_ins=stand_ins)
        if _castable(values):
            # Only a point can be of two meanings here; whole numbers are alike in all countries.
            settled = self.marked and not self.comma
            dotted = settled or pc.any(pc.match_substring(values, ".")).as_py()
            comma = not settled and (not dotted or _all_match(values, ","))
            return Traits(any_number=True, comma=comma, marked=dotted, stand_ins=stand_ins)
        units = pc.unique(pc.replace_substring_regex(values, NO_PART_OF_UNIT, "")).to_pylist()
        if len(units) != 1 or units[0] not in ("", *UNITS):
            return Traits(possible=False)
        bare = _bare(values, units[0])
        point, comma = (_all_match(bare, decimal) for decimal in PATTERNS)
        marked = pc.any(pc.match_substring_regex(bare, "[.,]")).as_py()
        return Traits(True, point or comma, False, point, comma, marked, units[0], stand_ins)


def styles_of(
    traits: Mapping[str, Traits], decimal: str | None, delimiter: str
) -> dict[str, Style]:
    """How each column of numbers is written; columns of words are left out.

    A value such as 1,234 has two meanings. The decimal mark that is given, or that other columns
    leave no doubt about, settles it; else a file with semicolons has decimal commas.

    Examples
    --------
    >>> price = Traits().seen(pa.array(["1,234", "2,500"]))
    >>> styles_of({"price": price}, None, ",")["price"].decimal
    '.'
    >>> share = Traits().seen(pa.array(["0,25", "1,5"]))
    >>> styles_of({"price": price, "share": share}, None, ",")["price"].decimal
    ','
    """
    numbers = {name: trait for name, trait in traits.items() if trait.is_number}
    points = any(not trait.comma for trait in numbers.values())
    commas = any(not trait.point for trait in numbers.values())
    known = decimal or ("," if commas and not points else "." if points and not commas else None)
    guessed = known or ("," if delimiter == ";" else ".")
    styles = {}
    for name, trait in numbers.items():
        mark = "." if trait.point else ","
        if trait.point and trait.comma and trait.marked:
            # Points among digits are held to be decimal ones as long as nothing speaks against it.
            mark = (known or ".") if trait.plain else guessed
        styles[name] = Style(mark, trait.unit, tuple(sorted(trait.stand_ins)))
    return styles


def number_like(values: pa.Array) -> pa.Array:
    """Which texts are numbers, however they are written."""
    bare = pc.replace_substring_regex(values, "|".join(map(_quoted, UNITS)), "")
    bare = _bare(bare, "")
    return pc.or_(*(pc.match_substring_regex(bare, pattern) for pattern in PATTERNS.values()))


def is_plain(style: Style, trait: Traits) -> bool:
    """Whether Arrow reads the column by itself."""
    return trait.plain and style == PLAIN


def _quoted(unit: str) -> str:
    return unit.replace("$", r"\$")


def _castable(values: pa.Array) -> bool:
    try:
        pc.cast(values, pa.float64())
    except pa.ArrowInvalid:
        return False
    return True


def _all_match(values: pa.Array, decimal: str) -> bool:
    return bool(pc.all(pc.match_substring_regex(values, PATTERNS[decimal])).as_py())


def _bare(values: pa.Array, unit: str) -> pa.Array:
    """Without the unit and the blanks around numbers."""
    if unit:
        values = pc.replace_substring(values, unit, "")
    return pc.utf8_trim_whitespace(pc.replace_substring(values, MINUS, "-"))


def _without(column: pa.Array, texts: tuple[str, ...]) -> pa.Array:
    return pc.if_else(pc.is_in(column, pa.array(texts)), pa.scalar(None, pa.string()), column)
