"""Ten messy tables as people bring them, and what their columns are to be taken for."""

from dataclasses import dataclass, field

import numpy as np
import pandas as pd

N = 240


@dataclass(frozen=True)
class Messy:
    """A table, how its file is written, and what is expected of each column but the groups.

    ``warned`` are columns that Python names in a warning, ``dropped`` those that it leaves out, and
    ``proxies`` those that tell the group.
    """

    frame: pd.DataFrame
    kinds: dict[str, str]
    warned: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    proxies: tuple[str, ...] = ()
    unjudged: tuple[str, ...] = ()
    writing: dict[str, object] = field(default_factory=dict)
    python: pd.DataFrame | None = None


def messy_tables():
    """The tables, by what is messy in them."""
    rng = np.random.default_rng(3)
    rows = np.arange(N)
    sex = np.where(rng.random(N) < 0.45, "f", "m")
    women = sex == "f"
    age = rng.integers(18, 80, N)
    hours = (rng.normal(38, 9, N) - 4 * women).round(1)
    plain = {"age": "numeric", "hours": "numeric"}

    def table(**columns):
        return pd.DataFrame({"age": age, "hours": hours, **columns, "sex": sex})

    days = pd.to_datetime("2019-03-01") + pd.to_timedelta(rng.integers(0, 1500, N), unit="D")
    euros = rng.gamma(2, 1500, N).round(2)
    german = [f"{x:,.2f} €".translate(str.maketrans(",.", ".,")) for x in euros]
    dollars = [f"${x:,.2f}" for x in euros]
    towns = np.array(["Münster", "Besançon", "Kraków"])[rows % 3]
    title = np.where(rng.random(N) < 0.97, np.where(women, "Ms", "Mr"), "Dr")
    strange = np.where(rows < 4, "stranger", sex)
    return {
        "ids": Messy(
            table(
                customer_no=rng.permutation(900_000)[:N] + 100_000,
                row=rows + 1,
                ticket=rng.permutation(1000)[:N],
                phone=rng.choice(10**9, N, replace=False) + 3 * 10**9,
                passport=[f"P{i:07d}" for i in rng.permutation(10**6)[:N]],
            ),
            plain
            | dict.fromkeys(("customer_no", "row", "ticket", "phone"), "identifier-like")
            | {"passport": "identifier-like"},
            warned=("customer_no", "row", "ticket", "phone"),
        ),
        "dates": Messy(
            table(
                opened=days.strftime("%Y%m%d").astype(int),
                month=days.strftime("%Y%m").astype(int),
                born=days.strftime("%d.%m.%Y"),
                created_at=days.as_unit("s").astype("int64"),
            ),
            plain | dict.fromkeys(("opened", "month", "born", "created_at"), "date"),
            warned=("opened", "month"),
        ),
        "weights": Messy(
            table(
                fnlwgt=rng.integers(20_000, 400_000, N),
                sampling_weight=rng.gamma(3, 2, N),
                weight=rng.normal(75, 12, N).round(1),
                zip=rng.integers(10_000, 99_999, N),
                region_code=rng.integers(1, 7, N),
            ),
            plain
            | {"fnlwgt": "weight", "sampling_weight": "weight", "weight": "numeric"}
            | {"zip": "code", "region_code": "categorical"},
            warned=("fnlwgt", "sampling_weight", "zip"),
        ),
        "currencies": Messy(
            table(salary=dollars, bonus=np.where(rows % 5 == 0, "-", [f"{x} USD" for x in euros])),
            plain | {"salary": "numeric", "bonus": "numeric"},
            python=table(salary=euros, bonus=np.where(rows % 5 == 0, np.nan, euros)),
        ),
        "decimal commas": Messy(
            table(pay=german).assign(hours=[f"{x:.1f}".replace(".", ",") for x in hours]),
            plain | {"pay": "numeric"},
            writing={"sep": ";"},
            python=table(pay=euros),
        ),
        "proxies": Messy(
            table(gender_code=women.astype(int), title=title),
            plain | {"gender_code": "categorical", "title": "categorical"},
            proxies=("gender_code", "title"),
        ),
        "rare groups": Messy(
            table(town=towns).assign(sex=strange),
            plain | {"town": "categorical"},
            unjudged=("stranger",),
        ),
        "constant columns": Messy(
            table(country="PL", year=2024, smoker=np.where(rows % 4 == 0, "?", ["no", "yes"][0])),
            plain | {"country": "constant", "year": "constant", "smoker": "constant"},
            warned=("smoker",),
        ),
        "mixed encodings": Messy(
            table(town=towns, job=np.where(rows % 7 == 0, "?", np.array(["a", "b"])[rows % 2])),
            plain | {"town": "categorical", "job": "categorical"},
            warned=("job",),
            writing={"encoding": "latin-1", "errors": "replace"},
        ),
        "200 columns": Messy(
            pd.concat(
                [
                    table(),
                    pd.DataFrame(rng.normal(size=(N, 197)), columns=[f"v{j}" for j in range(197)]),
                ],
                axis=1,
            ),
            plain | {f"v{j}": "numeric" for j in range(197)},
        ),
    }
