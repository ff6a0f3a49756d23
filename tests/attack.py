"""A reader who wants to know hidden counts: integer programs over all that a report prints.

He has the HTML alone: texts, lengths of bars and the data of charts. A rounded number is an
interval.
"""

import json
import re
from dataclasses import dataclass, field
from functools import cached_property
from html.parser import HTMLParser
from itertools import combinations

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_array

VOID = {"meta", "br", "img", "input", "link"}
DIGITS = 0.5e-4  # half of the last of four decimals
RATIO_PARTS = ("number", "word", "place")  # of a line of ratios
LARGE = 1e4  # no group of a small report has as many rows


@dataclass
class Node:
    """An element of a page."""

    tag: str
    attributes: dict = field(default_factory=dict)
    children: list = field(default_factory=list)

    def find(self, tag="", **attributes):
        """All elements below with a tag, and with attributes that contain a word."""
        out = []
        for child in self.children:
            if isinstance(child, Node):
                named = not tag or child.tag == tag
                if named and all(
                    v in child.attributes.get(n.strip("_"), "").split()
                    for n, v in attributes.items()
                ):
                    out.append(child)
                out += child.find(tag, **attributes)
        return out

    @property
    def text(self):
        """What it says, with single blanks."""
        parts = [c if isinstance(c, str) else c.text for c in self.children]
        return " ".join(" ".join(parts).split())


class Tree(HTMLParser):
    """The elements of a page."""

    def __init__(self, html):
        super().__init__()
        self.root = Node("")
        self.open = [self.root]
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        node = Node(tag, {name: value or "" for name, value in attributes})
        self.open[-1].children.append(node)
        if tag not in VOID:
            self.open.append(node)

    def handle_endtag(self, tag):
        while self.open[-1].tag != tag:
            self.open.pop()
        self.open.pop()

    def handle_data(self, data):
        self.open[-1].children.append(data)


def number(text):
    return float(text.replace(",", ""))


def span(text):
    """Ends of a number as it is printed; None where it is hidden."""
    found = re.fullmatch(r"(below|above) ([\d.]+)%", text)
    if found:
        return (0.0, number(found[2])) if found[1] == "below" else (number(found[2]), 100.0)
    found = re.fullmatch(r"([\d,.]+) ± ([\d.]+)( rows|%)?", text)
    if found:
        middle, half = number(found[1]), number(found[2])
        return middle - half, middle + half
    found = re.fullmatch(r"([\d,]+(?:\.(\d+))?)( rows|%)?", text)
    if not found:
        return None
    half = 0.5 * 10.0 ** -len(found[2] or "") if found[2] or found[3] == "%" else 0.0
    return number(found[1]) - half, number(found[1]) + half


@dataclass
class Cells:
    """What is printed of one table of groups and clusters.

    A column is one cluster, or several that are shown together: a tuple of names.
    """

    columns: list = field(default_factory=list)
    empty: set = field(default_factory=set)
    filled: int | None = None  # how many clusters have rows
    sizes: dict = field(default_factory=dict)  # of columns: ends
    column_shares: dict = field(default_factory=dict)  # of all rows, in percent
    column_gaps: dict = field(default_factory=dict)
    counts: dict = field(default_factory=dict)  # of (group, column): ends
    shares: list = field(default_factory=list)  # group, column, ends, as parts of one
    rates: dict = field(default_factory=dict)  # in percent
    gap: str = "hidden"
    balance: str = "hidden"
    ratio: str = "hidden"
    ratio_step: float = 0.001  # what it is rounded down to
    lowest: dict = field(default_factory=dict)  # of groups: smallest ratio, word, cluster
    asked: tuple | None = None  # of a rule on a ratio: what is compared, the verdict, the bound
    verdict: str = "no bound"
    bound: float = np.inf
    forgiven: bool | None = None  # whether a gap is above its bound, if that is said
    usual: tuple | None = None  # what chance shows, and on which side of it the gap is
    most: str | None = None  # the cluster where the groups differ most
    least_size: dict = field(default_factory=dict)  # of clusters: rows that they are known to have

    @property
    def shown(self):
        """Clusters whose counts are on the page."""
        return {column[0] for column in self.columns if len(column) == 1}


class Reading:
    """Everything that a page says of counts."""

    def __init__(self, html):
        root = self.root = Tree(html).root
        self.words = root.find("body")[0].text
        facts = {
            d.find("dt")[0].text: d.find("dd")[0].text
            for d in root.find(_class="facts")[0].find("div")
        }
        self.sizes = {
            name.removeprefix("group "): number(fact)
            for name, fact in facts.items()
            if name.startswith("group ") and name != "groups by"
        }
        self.groups = list(self.sizes)
        self.n_clusters = int(re.search(r"over (\d+) clusters", self.words)[1])
        self.names = [str(k) for k in range(self.n_clusters)]
        self.tables = [self._main()]
        self.tables += [self._point(i) for i in range(len(root.find(_class="panel")))]
        # Costs and likelihoods are told where no cluster of any table has fewer than 10 rows.
        if "−log-likelihood" in self.words or "objective (per row" in html:
            for table in self.tables:
                table.least_size = dict.fromkeys(self.names, 10)

    @property
    def n_rows(self):
        return sum(self.sizes.values())

    def _bars(self, where):
        """The bars of a panel, with their lengths."""
        table = Cells()
        for article in where.find("article", _class="cluster"):
            head = article.find("h4")[0].text
            if head.endswith(" empty"):
                table.empty.add(head.split()[1])
                continue
            said = re.fullmatch(
                r"Clusters? (.+?)(?: together)? ([\d,]+ rows), ([\d.]+%)(?: gap (\S+))?", head
            )
            column = tuple(said[1].split(", "))
            assert (len(column) > 1) == (" together " in head)
            table.columns.append(column)
            table.sizes[column] = span(said[2])
            table.column_shares[column] = span(said[3])
            # How the groups compare in the sum says nothing of its clusters.
            assert (said[4] is None) == (len(column) > 1)
            table.column_gaps[column] = span(said[4] or "")
            for bar in article.find("div", _class="bar"):
                group = bar.find("b")[0].text
                style = dict(p.split(":") for p in bar.attributes["style"].split(";") if p)
                label = bar.find("span", _class="number")[0].text
                table.shares.append((group, column, tuple(end / 100 for end in span(label))))
                length = float(style["--s"])
                table.shares.append((group, column, (length - DIGITS, length + DIGITS)))
                assert abs(float(style["--p"]) - self.sizes[group] / self.n_rows) <= DIGITS
        return table

    def _main(self):
        table = self._bars(self.root.find("section", _id="shares")[0])
        name = ""
        for row in self.root.find("section", _id="shares")[0].find("tr")[1:]:
            cells = [cell.text for cell in row.find("td")]
            name = cells[0] or name
            column = tuple(name.split(", "))
            table.counts[cells[1], column] = span(cells[2])
            table.shares.append((cells[1], column, tuple(e / 100 for e in span(cells[3]))))
            table.rates[cells[1], column] = span(cells[6])
        figures = {
            d.find("dt")[0].text: d.find("dd")[0].text
            for d in self.root.find(_class="figures")[0].find("div")
        }
        table.gap, table.balance = figures["gap"].replace("≤", "at most"), figures["balance"]
        table.ratio = figures["smallest ratio"]
        table.filled = int(figures["clusters"].split()[0])
        for lines in self.root.find("div", _class="ratios"):
            for bar in lines.find("div", _class="bar"):
                texts = {name: bar.find("span", _class=name)[0].text for name in RATIO_PARTS}
                style = dict(p.split(":") for p in bar.attributes["style"].split(";") if p)
                # A bar says no more than its text.
                assert style.get("--s", "hidden") == texts["number"]
                cluster = re.match(r"cluster (\S+?)(?:,|$)", texts["place"])
                group = bar.find("b")[0].text
                table.lowest[group] = texts["number"], texts["word"], cluster and cluster[1]
        box = self.root.find(_class="verdict")[0]
        self._verdict(table, " ".join(p.text for p in box.find("p")[:2]))
        most = re.search(r"groups differ most in cluster (\S+)(?: \([^)]*\))?, which", self.words)
        table.most = most and most[1]
        said = re.search(r"show a gap below ([\d.]+); this one is (below|above) that", self.words)
        table.usual = said and (float(said[1]), said[2])
        portraits = self.root.find("article", _class="portrait")
        for portrait in portraits:
            if "Too few rows" not in portrait.text:
                name = portrait.find("h3")[0].text.removeprefix("Cluster ")
                table.least_size[name] = 10
        return table

    def _verdict(self, table, sentence):
        said = re.match(
            r"The bound is (met|missed).*, and the bound is (\d+(?:\.\d+)?)(?: \((met|or) as)?",
            sentence,
        )
        if said:
            table.verdict, table.bound = said[1], float(said[2])
            table.forgiven = None if said[3] == "or" else said[3] == "met"
        said = re.match(
            r"The bound is (met|missed)\b.*between the (shares|rows) of two groups.* is (.*), "
            r"and at least ([\d.]+) is asked for(?: \(met as closely as whole rows allow\))?\.",
            sentence,
        )
        if said:
            forgiven = "as closely as" in sentence
            table.asked = said[2], said[1] == "met", float(said[4]), forgiven
            # Beside the figure, the sentence says no more than the figure or the verdict.
            figure = table.ratio if said[2] == "shares" else table.balance[:5]
            known = f"{'at least' if said[1] == 'met' else 'below'} {said[4]}"
            assert said[3] in (figure, known, "hidden")

    def shares_of(self, column):
        """Shares of categories of a column, here and in all described rows, in percent."""
        out = {}
        for portrait in self.root.find("article", _class="portrait"):
            cluster = int(portrait.find("h3")[0].text.removeprefix("Cluster "))
            for row in portrait.find("tr"):
                cells = [cell.text for cell in row.find("td")]
                if cells and cells[0].startswith(f"{column} "):
                    category = cells[0].removeprefix(f"{column} ")
                    out[category, cluster] = span(cells[1]), span(cells[2])
        return out

    def _point(self, i):
        panel = self.root.find(_class="panel")[i]
        table = self._bars(panel)
        section = self.root.find("section", _id="front")[0]
        names = [cell.text for cell in section.find("th")]
        cells = [cell.text for cell in section.find("tr")[1 + i].find("td")]
        row = dict(zip(names, cells, strict=True))
        table.gap, table.balance, table.ratio = row["gap"], row["balance"], row["ratio"]
        table.filled = int(row["clusters"])
        noun = re.search(r"with a different bound on the (\w+)", section.text)[1]
        if noun == "gap":
            table.verdict = row["verdict"]
            table.bound = np.inf if row["bound"] == "none" else float(row["bound"])
        elif row["verdict"] in ("met", "missed"):
            what = {"ratio": "shares", "balance": "rows"}[noun]
            # Whether a row was forgiven, at 1, is said of the report's own table only.
            bound = float(row["bound"])
            table.asked = what, row["verdict"] == "met", bound, None if bound == 1 else False
        for script in self.root.find("script", **{"data-chart": "chart-front"}):
            for point in json.loads(script.text)["data"]["values"]:
                if point["index"] == i:
                    assert row["verdict"] != "hidden"
                    assert point["figure"] == float(row[noun].removeprefix("at most "))
                    assert f"{noun} {row[noun]}," in point["tip"]
        return table


class HeldOut:
    """What a page says of held-out rows, which have no table."""

    def __init__(self, html, n_clusters):
        words = Tree(html).root.find("body")[0].text
        said = re.search(r"Observed on [\d,]+ held-out rows \((.+?)\): (.+?)\. The st", words)
        self.groups = [part.split()[0] for part in said[1].split(", ")]
        self.sizes = {part.split()[0]: number(part.split()[1]) for part in said[1].split(", ")}
        self.names = [str(k) for k in range(n_clusters)]
        table = Cells()
        self.tables = [table]
        sentence = re.search(r"The bound is (.+?) on held-out rows, and (.+?)\. [A-Z]", words)
        # In the sentence, a gap is cut at a bound that is met.
        seen = said[2]
        missed = sentence[1].startswith(("missed on held-out", "met on the rows of the fit; held"))
        bound = float(re.findall(r"\d+(?:\.\d+)?", sentence[2])[0])
        if "is asked for" in words:
            table.asked = "shares", not missed, bound, None if bound == 1 else False
            if seen != "hidden":
                table.ratio = seen.removeprefix("at least ")
                table.ratio_step = 0.01 if min(self.sizes.values()) >= 1000 else 0.1
        else:
            table.verdict, table.bound = "missed" if missed else "met", bound
            table.gap = seen


class Program:
    """An integer program, built line by line."""

    def __init__(self):
        self.low, self.high, self.whole, self.lines = [], [], [], []
        self.found = []  # solutions of former questions

    def variable(self, low, high, *, whole=True):
        self.low.append(low)
        self.high.append(high)
        self.whole.append(int(whole))
        return len(self.low) - 1

    def line(self, terms, low, high):
        """A sum of (variable, factor) between two ends."""
        self.lines.append((terms, low, high))

    def extreme(self, variable, sign):
        """The smallest (1) or largest (-1) value of a variable."""
        return round(self._solve(variable, sign, self.low, self.high)[variable])

    def allows(self, variable, least, most):
        """Whether a variable may be between two ends."""
        low, high = list(self.low), list(self.high)
        low[variable], high[variable] = max(low[variable], least), min(high[variable], most)
        return low[variable] <= high[variable] and self._solve(variable, 0, low, high) is not None

    def fits(self, values):
        """Whether variables may have these values, all at once."""
        low, high = list(self.low), list(self.high)
        for variable, value in values.items():
            low[variable] = high[variable] = value
        return self._solve(next(iter(values)), 0, low, high) is not None

    def values(self, variable):
        """Values of a variable in the solutions that are known."""
        return {round(point[variable]) for point in self.found}

    @cached_property
    def constraint(self):
        matrix = np.zeros((len(self.lines), len(self.low)))
        for i, (terms, _, _) in enumerate(self.lines):
            for v, factor in terms:
                matrix[i, v] += factor
        # HiGHS allows 1e-6 by itself; ends of intervals are open to a last digit.
        lows = [a - 1e-9 for _, a, _ in self.lines]
        highs = [b + 1e-9 for _, _, b in self.lines]
        return LinearConstraint(csr_array(matrix), lows, highs)

    def _solve(self, variable, sign, low, high):
        goal = np.zeros(len(low))
        goal[variable] = sign
        found = milp(
            goal,
            constraints=self.constraint,
            bounds=Bounds(low, high),
            integrality=self.whole,
        )
        assert found.status in (0, 2), found.message
        if found.status == 2:
            return None
        self.found.append(found.x)
        return found.x


def is_open(program, variable):
    """Whether a count stays unknown: it may be 1, 2, 3 and 4, or is open over 5 rows.

    Two solutions show that. So those of other counts, and a solution 5 rows away, save most of the
    programs that look for the ends.
    """
    known = program.values(variable)
    if known and (max(known) - min(known) >= 5 or known >= {1, 2, 3, 4}):
        return True
    if known and (
        program.allows(variable, min(known) + 5, np.inf)
        or program.allows(variable, -np.inf, max(known) - 5)
    ):
        return True
    low, high = (program.extreme(variable, sign) for sign in (1, -1))
    return high - low >= 5 or all(program.allows(variable, v, v) for v in (1, 2, 3, 4))


class Attack:
    """What a reading leaves possible for each count of each of its tables.

    ``truth`` is only asked whether what the reader makes of a rounded gap is wrong, and whether
    what is said to be an upper bound is one.
    """

    def __init__(self, reading, truth, resolutions):
        self.reading = reading
        self.cells = []
        for table, counts, resolution in zip(reading.tables, truth, resolutions, strict=True):
            # Tables share the sizes of groups and nothing else. The page prints these, so that one
            # program for all tables would find no more than one for each.
            self.program = Program()
            cells = self._table(table, np.asarray(counts, float), resolution)
            self.cells.append((self.program, cells))

    def _table(self, table, counts, resolution):
        p, groups, sizes = self.program, self.reading.groups, self.reading.sizes
        names = self.reading.names
        x = {(g, k): p.variable(0, sizes[g]) for g in groups for k in names}
        for g in groups:
            p.line([(x[g, k], 1) for k in names], sizes[g], sizes[g])
        filled = {k: p.variable(0, 1) for k in names}
        if table.filled is not None:
            p.line([(v, 1) for v in filled.values()], table.filled, table.filled)
        for k in names:
            here = [(x[g, k], 1) for g in groups]
            least = max(1, table.least_size.get(k, 1))
            p.line([*here, (filled[k], -least)], 0, LARGE)
            p.line([*here, (filled[k], -LARGE)], -LARGE, 0)
            if k in table.empty or any(k in column for column in table.columns):
                p.line([(filled[k], 1)], k not in table.empty, k not in table.empty)
        sums = {
            column: {g: [(x[g, k], 1) for k in column] for g in groups} for column in table.columns
        }
        for column, rows in sums.items():
            together = [term for terms in rows.values() for term in terms]
            p.line(together, *table.sizes[column])
            n_rows = self.reading.n_rows
            p.line(together, *(e * n_rows / 100 for e in table.column_shares[column]))
        for (g, column), ends in table.counts.items():
            p.line(sums[column][g], *ends)
        for (g, column), ends in table.rates.items():
            p.line(sums[column][g], *(e * sizes[g] / 100 for e in ends))
        for g, column, ends in table.shares:
            together = [term for terms in sums[column].values() for term in terms]
            p.line([*sums[column][g], *((v, -ends[0]) for v, _ in together)], 0, LARGE)
            p.line([*sums[column][g], *((v, -ends[1]) for v, _ in together)], -LARGE, 0)
        self._gaps(table, x, counts, resolution)
        self._all_ratios(table, x, filled)
        return x

    def _all_ratios(self, table, x, filled):
        groups, names = self.reading.groups, self.reading.names
        if span(table.balance):
            self._ratios(x, filled, groups, names, *span(table.balance), scaled=False)
        if table.ratio not in ("hidden", "not judged"):
            low = float(table.ratio)
            self._ratios(x, filled, groups, names, low, low + table.ratio_step)
        if table.asked is not None:
            what, met, bound, forgiven = table.asked
            scaled = what == "shares"
            if met and forgiven is False:
                self._ratios(x, filled, groups, names, bound, None, scaled=scaled)
            elif not met or forgiven:
                self._ratios(x, filled, groups, names, None, bound, scaled=scaled)
        for g, (text, word, cluster) in table.lowest.items():
            places = names if cluster is None else [cluster]
            if text != "hidden":
                self._ratios(x, filled, [g], names, float(text), None)
                self._ratios(x, filled, [g], places, None, float(text) + 0.001)
            if word == "at least 0.8":
                self._ratios(x, filled, [g], names, 0.8, None)
            elif word == "below 0.8":
                self._ratios(x, filled, [g], places, None, 0.8)

    def _ratios(self, x, filled, groups, names, low, high, *, scaled=True):
        """All ratios of these groups' rates to others' are at least low, and one at most high."""
        p, sizes, found = self.program, self.reading.sizes, []
        for k in names:
            for g in groups:
                for h in self.reading.groups:
                    scale = sizes[g] / sizes[h] if scaled else 1.0
                    if g == h:
                        continue
                    if low is not None:
                        p.line([(x[g, k], 1), (x[h, k], -low * scale)], 0, LARGE)
                    if high is not None:
                        here = p.variable(0, 1)
                        line = [(x[g, k], 1), (x[h, k], -high * scale), (here, LARGE)]
                        p.line(line, -LARGE, LARGE)
                        # An empty cluster has no ratio.
                        p.line([(here, 1), (filled[k], -1)], -1, 0)
                        found.append((here, 1))
        if high is not None:
            p.line(found, 1, LARGE)

    def _gaps(self, table, x, counts, resolution):
        """The gap of each cluster: the mean over pairs of what their rates differ by."""
        p, groups, sizes = self.program, self.reading.groups, self.reading.sizes
        if len(groups) < 2:
            return
        pairs = list(combinations(groups, 2))
        gap = {}
        for k in self.reading.names:
            terms = []
            for g, h in pairs:
                e, side = p.variable(0, 1, whole=False), p.variable(0, 1)
                d = [(x[g, k], 1 / sizes[g]), (x[h, k], -1 / sizes[h])]
                back = [(v, -f) for v, f in d]
                p.line([(e, 1), *back], 0, 9)
                p.line([(e, 1), *d], 0, 9)
                p.line([(e, 1), *back, (side, 2)], -9, 2)
                p.line([(e, 1), *d, (side, -2)], -9, 0)
                terms.append((e, 1 / len(pairs)))
            gap[k] = p.variable(0, 1, whole=False)
            p.line([(gap[k], 1), *((v, -f) for v, f in terms)], 0, 0)
            if table.column_gaps.get((k,)):
                p.line([(gap[k], 1)], *table.column_gaps[(k,)])
        if table.most is not None:
            for k in self.reading.names:
                p.line([(gap[table.most], 1), (gap[k], -1)], 0, 1)
        if table.usual is not None:
            usual, side = table.usual
            self._largest(gap, *((0, usual + DIGITS) if side == "below" else (usual - DIGITS, 1)))
        met = max(table.bound, resolution)
        if table.verdict.startswith("met"):
            ends = {None: (0, met), True: (table.bound, met), False: (0, table.bound)}
            self._largest(gap, *ends[table.forgiven])
        if table.verdict == "missed":
            self._largest(gap, met, 1)
        if table.gap.startswith("at most"):
            high = number(table.gap.removeprefix("at most "))
            rates = counts / counts.sum(axis=1, keepdims=True)
            true = max(
                np.mean([abs(a - b) for a, b in combinations(rates[:, k], 2)])
                for k in range(counts.shape[1])
            )
            assert true <= high + 1e-9, "an upper bound that is none"
            # Rounded up to so many rows of the smallest group: the page does not say to how many,
            # so it may have been the most of which this is a multiple, and a met bound is none.
            steps = [n / min(sizes.values()) for n in (20, 10, 5, 2, 1)]
            low = next((high - s for s in steps if (high - 1e-4) // s < (high + 1e-9) // s), 0)
            low = low - 1e-4 if true >= low - 1e-4 else 0
            self._largest(gap, max(0, low), high)
        elif span(table.gap):
            self._largest(gap, *span(table.gap))

    def _largest(self, gap, low, high):
        """The largest gap is between two ends."""
        p, here = self.program, []
        for v in gap.values():
            p.line([(v, 1)], 0, high)
            chosen = p.variable(0, 1)
            p.line([(v, 1), (chosen, -1)], low - 1, 9)
            here.append((chosen, 1))
        p.line(here, 1, LARGE)

    def known(self, truth):
        """Counts that the page gives away, and how many hidden ones there are."""
        n_hidden, found = 0, []
        for table, (program, x), counts in zip(self.reading.tables, self.cells, truth, strict=True):
            true_counts = {
                cell: int(counts[self.reading.groups.index(cell[0])][int(cell[1])]) for cell in x
            }
            # Otherwise the reader has misread something.
            assert program.fits({x[cell]: n for cell, n in true_counts.items()})
            for (g, k), variable in x.items():
                true = true_counts[g, k]
                if k in table.empty:
                    assert true == 0
                elif k in table.shown:
                    assert true >= 5, "a small count is shown"
                else:
                    n_hidden += 1
                    if not is_open(program, variable):
                        found.append((g, k, sorted(program.values(variable)), true))
        return found, n_hidden


class MovesAttack(Attack):
    """What a report before a repair, one after it and the moves in the latter leave possible.

    ``moved`` (groups, clusters, clusters) are the true rows that had a cluster and have one. The
    tables are two sides of the same rows, so that there is one program for both.
    """

    def __init__(self, before, after, moved, resolutions):
        self.program = p = Program()
        self.moved, self.n_listed = moved, 0
        self.truth = [moved.sum(axis=2), moved.sum(axis=1)]
        self.pages = [before, after]
        self.tables = []
        for page, counts, resolution in zip(self.pages, self.truth, resolutions, strict=True):
            self.reading = page
            self.tables.append(self._table(page.tables[0], counts.astype(float), resolution))
        groups, names, sizes = after.groups, after.names, after.sizes
        assert groups == before.groups
        self.flows = {
            (g, a, b): p.variable(0, sizes[g]) for g in groups for a in names for b in names
        }
        for g in groups:
            for k in names:
                for x, sides in zip(self.tables, ((k, None), (None, k)), strict=True):
                    here = [(g, sides[0] or other, sides[1] or other) for other in names]
                    p.line([(x[g, k], -1), *((self.flows[flow], 1) for flow in here)], 0, 0)
        self.totals = {(a, b): p.variable(0, LARGE) for a in names for b in names if a != b}
        for (a, b), total in self.totals.items():
            p.line([(total, -1), *((self.flows[g, a, b], 1) for g in groups)], 0, 0)
        self._read(after)

    def _read(self, page):
        """The section of moves: numbers of rows, and a share of all."""
        p = self.program
        (section,) = page.root.find("section", _id="moves")
        said = re.search(r"gave at least (\d+)% of the rows another cluster", section.text)
        if said:
            every = [(total, 1) for total in self.totals.values()]
            p.line(every, int(said[1]) * page.n_rows / 100, LARGE)
        for row in section.find("tr")[1:]:
            a, b, text = (cell.text for cell in row.find("td"))
            low, high = map(number, text.split(" to "))
            assert low >= 5, "a small move is listed"
            p.line([(self.totals[a, b], 1)], low, high)
            self.n_listed += 1

    def known(self):
        """Counts and moves that the pages give away, and how many hidden ones there are."""
        p, groups, found, n_hidden = self.program, self.pages[0].groups, [], 0
        true = {
            self.flows[g, a, b]: int(self.moved[groups.index(g), int(a), int(b)])
            for g, a, b in self.flows
        }
        # Otherwise the reader has misread something.
        assert p.fits(true)
        for page, x, counts in zip(self.pages, self.tables, self.truth, strict=True):
            table = page.tables[0]
            for (g, k), variable in x.items():
                if k not in table.empty and k not in table.shown:
                    n_hidden += 1
                    if not is_open(p, variable):
                        rows = int(counts[groups.index(g), int(k)])
                        found.append((g, k, sorted(p.values(variable)), rows))
        before, after = (page.tables[0] for page in self.pages)
        for (a, b), total in self.totals.items():
            # An empty cluster is told, and no row leaves or reaches it.
            if a in before.empty or b in after.empty:
                continue
            n_hidden += 1
            if not is_open(p, total):
                rows = int(self.moved[:, int(a), int(b)].sum())
                found.append((a, b, sorted(p.values(total)), rows))
        return found, n_hidden
