"""A reader who wants to know hidden counts: integer programs over all that a report prints.

He has the HTML alone: texts, lengths of bars and the data of charts. A rounded number is an
interval.
"""

import json
import re
from dataclasses import dataclass, field
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
    """What is printed of one table of groups and clusters."""

    clusters: list
    empty: dict = field(default_factory=dict)
    sizes: dict = field(default_factory=dict)  # of clusters: ends
    cluster_shares: dict = field(default_factory=dict)  # of all rows, in percent
    cluster_gaps: dict = field(default_factory=dict)
    counts: dict = field(default_factory=dict)  # of (group, cluster): ends
    shares: list = field(default_factory=list)  # group, cluster, ends, as parts of one
    rates: dict = field(default_factory=dict)  # in percent
    gap: str = "hidden"
    balance: str = "hidden"
    ratio: str = "hidden"
    lowest: dict = field(default_factory=dict)  # of groups: smallest ratio, word, cluster
    asked: tuple | None = None  # of a rule on a ratio: what is compared, the verdict, the bound
    verdict: str = "no bound"
    bound: float = np.inf
    most: int | None = None  # the cluster where the groups differ most
    described: list = field(default_factory=list)


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
        self.tables = [self._main()]
        self.tables += [self._point(i) for i in range(len(root.find(_class="panel")))]

    def _bars(self, where):
        """The bars of a panel, with their lengths."""
        table = Cells([])
        for article in where.find("article", _class="cluster"):
            head = article.find("h4")[0].text
            name = re.match(r"Cluster (\S+)", head)[1]
            table.clusters.append(name)
            table.empty[name] = head.endswith("empty")
            if table.empty[name]:
                continue
            said = re.fullmatch(
                r"Cluster \S+ (size hidden|.+? rows)(?:, ([\d.]+%))? gap (\S+)", head
            )
            table.sizes[name] = span(said[1])
            table.cluster_shares[name] = span(said[2] or "")
            table.cluster_gaps[name] = span(said[3])
            for bar in article.find("div", _class="bar"):
                group = bar.find("b")[0].text
                style = dict(p.split(":") for p in bar.attributes["style"].split(";") if p)
                label = bar.find("span", _class="number")[0].text
                if label.endswith(" rows"):
                    table.counts[group, name] = span(label)
                shown = span(label) if label.endswith("%") else None
                known = table.cluster_gaps[name] is not None
                # An interval needs all counts of its cluster.
                assert ("--l" in style) == known
                assert ("--s" in style) == (shown is not None)
                if shown is not None:
                    ends = shown[0] / 100, shown[1] / 100
                    table.shares.append((group, name, ends))
                    length = float(style["--s"])
                    if known:
                        table.shares.append((group, name, (length - DIGITS, length + DIGITS)))
                    # A bar of a rounded share says no more than its text.
                    else:
                        assert abs(length - sum(ends) / 2) < 1e-9
                assert abs(float(style["--p"]) - self.sizes[group] / self.n_rows) <= DIGITS
        return table

    @property
    def n_rows(self):
        return sum(self.sizes.values())

    def _main(self):
        table = self._bars(self.root.find("section", _id="shares")[0])
        name = ""
        for row in self.root.find("section", _id="shares")[0].find("tr")[1:]:
            cells = [cell.text for cell in row.find("td")]
            name = cells[0] or name
            table.counts[cells[1], name] = span(cells[2])
            if span(cells[3]) is not None:
                table.shares.append((cells[1], name, tuple(e / 100 for e in span(cells[3]))))
            table.rates[cells[1], name] = span(cells[6])
        figures = {
            d.find("dt")[0].text: d.find("dd")[0].text
            for d in self.root.find(_class="figures")[0].find("div")
        }
        table.gap, table.balance = figures["gap"].replace("≤", "at most"), figures["balance"]
        table.ratio = figures["smallest ratio"]
        for lines in self.root.find("div", _class="ratios"):
            for bar in lines.find("div", _class="bar"):
                texts = {name: bar.find("span", _class=name)[0].text for name in RATIO_PARTS}
                style = dict(p.split(":") for p in bar.attributes["style"].split(";") if p)
                # A bar says no more than its text.
                assert style.get("--s", "hidden") == texts["number"]
                cluster = re.match(r"cluster (\S+?)(?:,|$)", texts["place"])
                group = bar.find("b")[0].text
                table.lowest[group] = texts["number"], texts["word"], cluster and cluster[1]
        sentence = self.root.find(_class="sentence")[0].text
        said = re.match(
            r"The bound is (met|missed).*, and the bound is (\d+(?:\.\d+)?)",
            sentence,
        )
        if said:
            table.verdict, table.bound = said[1], float(said[2])
        said = re.match(
            r"The bound is (met|missed)\b.*between the (shares|rows) of two groups.* is (.*), "
            r"and at least ([\d.]+) is asked for\.",
            sentence,
        )
        if said:
            table.asked = said[2], said[1] == "met", float(said[4])
            # Beside the figure, the sentence says no more than the figure or the verdict.
            figure = table.ratio if said[2] == "shares" else table.balance[:5]
            known = f"{'at least' if said[1] == 'met' else 'below'} {said[4]}"
            assert said[3] in (figure, known, "hidden")
        most = re.search(r"The groups differ most in cluster (\S+), which", self.words)
        table.most = most and most[1]
        for portrait in self.root.find("article", _class="portrait"):
            if "Too few rows" not in portrait.text:
                table.described.append(portrait.find("h3")[0].text.removeprefix("Cluster "))
        return table

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
        table.gap, table.balance, table.verdict = row["gap"], row["balance"], row["verdict"]
        table.ratio = row["ratio"]
        table.bound = np.inf if row["bound"] == "none" else float(row["bound"])
        for script in self.root.find("script", **{"data-chart": "chart-front"}):
            for point in json.loads(script.text)["data"]["values"]:
                if point["index"] == i:
                    assert point["figure"] == float(row["gap"].removeprefix("at most "))
                    assert f"gap {row['gap']}," in point["tip"]
        return table


class Program:
    """An integer program, built line by line."""

    def __init__(self):
        self.low, self.high, self.whole, self.lines = [], [], [], []
        self.constraint = None

    def variable(self, low, high, *, whole=True):
        self.low.append(low)
        self.high.append(high)
        self.whole.append(int(whole))
        return len(self.low) - 1

    def line(self, terms, low, high):
        """A sum of (variable, factor) between two ends."""
        self.lines.append((terms, low, high))

    def extreme(self, variable, sign):
        """The smallest (1) or largest (-1) value of a variable; None if nothing fits at all."""
        found = self._solve(variable, sign, self.low, self.high)
        return None if found is None else round(found)

    def allows(self, variable, value):
        low, high = list(self.low), list(self.high)
        low[variable] = high[variable] = value
        return self._solve(variable, 1, low, high) is not None

    def _solve(self, variable, sign, low, high):
        if self.constraint is None:
            matrix = np.zeros((len(self.lines), len(low)))
            for i, (terms, _, _) in enumerate(self.lines):
                for v, factor in terms:
                    matrix[i, v] += factor
            # HiGHS allows 1e-6 by itself; ends of intervals are open to a last digit.
            lows = [a - 1e-9 for _, a, _ in self.lines]
            highs = [b + 1e-9 for _, _, b in self.lines]
            self.constraint = LinearConstraint(csr_array(matrix), lows, highs)
        goal = np.zeros(len(low))
        goal[variable] = sign
        found = milp(
            goal,
            constraints=self.constraint,
            bounds=Bounds(low, high),
            integrality=self.whole,
        )
        assert found.status in (0, 2), found.message
        return sign * found.fun if found.status == 0 else None


def open_ends(program, variable, low, high):
    """Whether a count stays unknown: it may be 1, 2, 3 and 4, or is open over 5 rows."""
    return high - low >= 5 or all(program.allows(variable, v) for v in (1, 2, 3, 4))


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
        names = [str(k) for k in range(self.reading.n_clusters)]
        x = {(g, k): p.variable(0, sizes[g]) for g in groups for k in names}
        for g in groups:
            p.line([(x[g, k], 1) for k in names], sizes[g], sizes[g])
        for k in names:
            column = [(x[g, k], 1) for g in groups]
            if k in table.clusters:
                most = 0 if table.empty[k] else LARGE
                p.line(column, min(most, 1), most)
            if table.sizes.get(k):
                p.line(column, *table.sizes[k])
            if table.cluster_shares.get(k):
                p.line(column, *(e * self.reading.n_rows / 100 for e in table.cluster_shares[k]))
            if k in table.described:
                p.line(column, 10, LARGE)
        for (g, k), ends in table.counts.items():
            if ends:
                p.line([(x[g, k], 1)], *ends)
        for (g, k), ends in table.rates.items():
            if ends:
                p.line([(x[g, k], 1)], *(e * sizes[g] / 100 for e in ends))
        for g, k, ends in table.shares:
            column = [(x[h, k], 1) for h in groups]
            p.line([(x[g, k], 1), *((v, -ends[0]) for v, _ in column)], 0, LARGE)
            p.line([(x[g, k], 1), *((v, -ends[1]) for v, _ in column)], -LARGE, 0)
        self._gaps(table, x, names, counts, resolution)
        if span(table.balance):
            low, high = span(table.balance)
            ratios = []
            for k in names:
                if table.empty.get(k):
                    continue
                for g in groups:
                    for h in groups:
                        if g != h:
                            p.line([(x[g, k], 1), (x[h, k], -low)], 0, LARGE)
                            here = p.variable(0, 1)
                            p.line([(x[g, k], 1), (x[h, k], -high), (here, LARGE)], -LARGE, LARGE)
                            ratios.append((here, 1))
            p.line(ratios, 1, LARGE)
        if table.ratio != "hidden":
            low = float(table.ratio)
            # Rounded down.
            self._ratios(table, x, groups, names, low, low + 0.001)
        if table.asked is not None:
            what, met, bound = table.asked
            ends = (bound, None) if met else (None, bound)
            self._ratios(table, x, groups, names, *ends, scaled=what == "shares")
        for g, (text, word, cluster) in table.lowest.items():
            places = names if cluster is None else [cluster]
            if text != "hidden":
                self._ratios(table, x, [g], names, float(text), None)
                self._ratios(table, x, [g], places, None, float(text) + 0.001)
            if word == "at least 0.8":
                self._ratios(table, x, [g], names, 0.8, None)
            elif word == "below 0.8":
                self._ratios(table, x, [g], places, None, 0.8)
        return x

    def _ratios(self, table, x, groups, names, low, high, *, scaled=True):
        """All ratios of these groups' rates to others' are at least low, and one at most high."""
        p, sizes, found = self.program, self.reading.sizes, []
        for k in names:
            if table.empty.get(k):
                continue
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
                        found.append((here, 1))
        if high is not None:
            p.line(found, 1, LARGE)

    def _gaps(self, table, x, names, counts, resolution):
        """The gap of each cluster: the mean over pairs of what their rates differ by."""
        p, groups, sizes = self.program, self.reading.groups, self.reading.sizes
        if len(groups) < 2:
            return
        pairs = list(combinations(groups, 2))
        gap = {}
        for k in names:
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
            if table.cluster_gaps.get(k):
                p.line([(gap[k], 1)], *table.cluster_gaps[k])
        if table.most is not None:
            for k in names:
                p.line([(gap[table.most], 1), (gap[k], -1)], 0, 1)
        met = max(table.bound, resolution)
        if table.verdict.startswith("met"):
            self._largest(gap, 0, met)
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
        """Counts that the page gives away, and how many hidden ones there are.

        A hidden count stays unknown if it may be 1, 2, 3 and 4, or any of more than 5 in a row.
        """
        n_hidden, found = 0, []
        for table, (program, x), counts in zip(self.reading.tables, self.cells, truth, strict=True):
            shown = {(g, k) for g, k, _ in table.shares}
            shown |= {cell for cell, ends in table.counts.items() if ends}
            for (g, k), variable in x.items():
                true = counts[self.reading.groups.index(g)][int(k)]
                if table.empty.get(k):
                    continue
                if (g, k) in shown:
                    assert true >= 5, "a small count is shown"
                    continue
                n_hidden += 1
                low, high = (program.extreme(variable, sign) for sign in (1, -1))
                assert low is not None, "the true counts must fit what is printed"
                assert low <= true <= high
                if not open_ends(program, variable, low, high):
                    found.append((g, k, low, high, true))
        return found, n_hidden
