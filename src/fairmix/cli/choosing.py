"""How many clusters: plain mixtures of several sizes, compared on two halves of a sample.

The criteria are those of plain mixtures, as in `fairmix.select_n_components`; no fit under the rule
is made for the choice. Each half has a best number of its own, which tells how sure the choice is.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from fairmix import FairMixture
from fairmix.system.progress import progress
from fairmix.trials.walks import FREE, NUMBERS

# Differences of BIC below this are no strong evidence (Kass and Raftery 1995, "Bayes factors").
CLOSE = 10.0
HALVES = 2


@dataclass(frozen=True)
class Choice:
    """The BIC of each number of clusters, on both halves of the rows, and the best one.

    Examples
    --------
    >>> found = Choice({2: (900.0, 910.0), 3: (880.0, 920.0), 4: (895.0, 909.0)}, 400)
    >>> found.best, found.halves, found.close
    (3, (3, 4), (4,))
    """

    bics: dict[int, tuple[float, ...]]
    n_rows: int

    @property
    def totals(self) -> dict[int, float]:
        """BIC of both halves together."""
        return {number: sum(found) for number, found in self.bics.items()}

    @property
    def best(self) -> int:
        """The number with the lowest."""
        return min(self.totals, key=self.totals.__getitem__)

    @property
    def halves(self) -> tuple[int, ...]:
        """The best number of each half alone."""
        bests = []
        for half in range(HALVES):
            own = {number: found[half] for number, found in self.bics.items()}
            bests.append(min(own, key=own.__getitem__))
        return tuple(bests)

    @property
    def close(self) -> tuple[int, ...]:
        """Other numbers that are hardly worse."""
        least = self.totals[self.best]
        return tuple(n for n, b in self.totals.items() if n != self.best and b - least < CLOSE)

    @property
    def reason(self) -> str:
        """Why, and how sure it is.

        Without the number of rows: beside those of a report it could tell how few are in a group.
        """
        said = f"{self.best} has the lowest BIC."
        if self.best == max(self.bics):
            said += (
                " It is the largest number that was tried: the data single out none. Choose by "
                "what the clusters are for, with -k N."
            )
        elif self.close:
            said += f" Hardly worse: {', '.join(map(str, self.close))}."
        if set(self.halves) != {self.best}:
            said += (
                f" The two halves of the rows alone choose {' and '.join(map(str, self.halves))}."
            )
        else:
            said += " Both halves of the rows alone choose it, too."
        return said

    def to_dict(self) -> dict[str, Any]:
        """For programs."""
        return {
            "best": self.best,
            "halves": list(self.halves),
            "rows": self.n_rows,
            "bic": {str(number): total for number, total in self.totals.items()},
        }


def choose_number(model: FairMixture, X: pa.Table, *, shown: bool) -> Choice:
    """Fit plain mixtures of 2 to 10 clusters to both halves of some rows."""
    halves = [X.take(list(range(half, len(X), HALVES))) for half in range(HALVES)]
    settings = {**model.get_params(), **FREE, "verbose": 0, "subsample": None, "batch_size": None}
    # Half of a sample may lack a rare category.
    settings["handle_unknown"] = "ignore"
    bics: dict[int, tuple[float, ...]] = {}
    numbers = [n for n in NUMBERS if n <= min(map(len, halves))]
    # A fit takes about as long as it has clusters, so they are the steps.
    with progress("choose K", sum(numbers), shown=shown) as tick:
        began, done = time.monotonic(), 0
        for number in numbers:
            plain = FairMixture(**settings | {"n_components": number})
            bics[number] = tuple(float(plain.fit(half).bic(half)) for half in halves)
            done += number
            left = (time.monotonic() - began) / done * (sum(numbers) - done)
            tick(
                f"{number} clusters: BIC {sum(bics[number]):,.0f}  {left:.0f} s left", steps=number
            )
    return Choice(bics, len(X))
