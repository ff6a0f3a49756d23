"""Write docs/stories/adult.md: what the commands print on Adult as a messy raw table. A minute."""

from __future__ import annotations

import argparse
import contextlib
import json
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from typer.testing import CliRunner

from fairmix.cli import app
from fairmix.datasets import load_adult
from generators.figures import ROOT, record

PAGE = ROOT / "docs" / "stories" / "adult.md"
ROWS = 8000
FIT = ["fit", "adult.csv", "-s", "sex", "-k", "6"]


def raw_table() -> pd.DataFrame:
    """Adult with what a raw export has beside: a row number, a customer number, a date, a zip."""
    adult = load_adult()
    rng = np.random.default_rng(0)
    rows = rng.permutation(len(adult.X))[:ROWS]
    frame = pd.DataFrame(adult.X[rows], columns=list(adult.feature_names))
    for j, name in enumerate(adult.category_names):
        frame[name] = np.array(adult.category_levels[j])[adult.categories[rows, j]]
    days = pd.to_datetime("1994-01-01") + pd.to_timedelta(rng.integers(0, 360, ROWS), unit="D")
    frame.insert(0, "customer_no", rng.permutation(900_000)[:ROWS] + 100_000)
    frame["entered"] = days.strftime("%Y%m%d").astype(int)
    frame["zip"] = rng.integers(10_000, 99_999, ROWS)
    return frame.assign(sex=np.asarray(adult.sex)[rows])


def run(*words: str) -> str:
    """What a command prints; a run that fails ends the story."""
    found = CliRunner().invoke(app, list(words), env={"COLUMNS": "80"})
    if found.exit_code:
        raise SystemExit(found.output)
    return found.stdout.rstrip()


def figures() -> dict[str, float]:
    """Those of the second run, and how well columns tell the sex."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        raw_table().to_csv("adult.csv", index=False)
        drop = ["--drop", "relationship", "--drop", "marital-status"]
        run(*FIT, *drop, "--no-front", "-o", "second")
        found = json.loads(Path("second/metrics.json").read_text("utf-8"))
    figures = {name: float(found[name]) for name in ("gap", "ratio", "balance", "non_empty")}
    return figures | {"proxies together": found["proxies"]["sex"]["together"]}


def main() -> None:
    """Run the commands in a folder of their own, and write the page around what they print."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        raw_table().to_csv("adult.csv", index=False)
        first = run(*FIT, "--max-gap", "1", "--no-front", "-o", "first")
        proxies = json.loads(Path("first/metrics.json").read_text("utf-8"))["proxies"]["sex"]
        given = [name for name in proxies["columns"] if name in ("relationship", "marital-status")]
        drop = [word for name in given for word in ("--drop", name)]
        second = run(*FIT, *drop, "--no-front", "-o", "second")
        third = run(
            *FIT, *drop, "--min-ratio", "0.8", "--hold-out", "0.3", "--no-front", "-o", "third"
        )
    shown = " ".join(["fairmix", *FIT])
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(
        TEXT.format(
            rows=f"{ROWS:,}",
            shown=shown,
            first=first,
            best=next(iter(proxies["columns"]), "no column"),
            right=f"{max(proxies['columns'].values(), default=0.5):.0%}",
            together=f"{proxies['together']:.0%}",
            drop=" ".join(drop),
            second=_after_columns(second),
            third=_after_columns(third),
        ),
        "utf-8",
    )
    record(PAGE, "story", figures())


def _after_columns(text: str) -> str:
    """Without the table of columns, which the first run shows."""
    return text.split("NAME)\n\n", 1)[-1]


TEXT = """# A messy table, from its raw columns to a decision

{rows} people of Adult, with what a raw export has beside: a customer number, a date written as a
number, a zip code, `?` for unknown. The question: six segments for letters, in which women and men
are spread evenly. Every block below is what the command printed; `scripts/generate story` writes
this page, with `--no-front` to be quick.

## Look first

```text
$ {shown} --max-gap 1 -o first
{first}
```

What to read here:

- **What was taken for what.** The customer number, the date, the zip code and the survey weight
  (`fnlwgt`) are left out, with a reason; `?` is missing. As numbers they would have made clusters:
  distances between zip codes mean nothing. Check the list. The guesses go by values and names, and
  they can be wrong.
- **`education` and `education-num` are the same thing twice.** No guess finds that. It counts
  double, and we leave it so here, knowingly.
- **Proxies.** `{best}` alone guesses the sex of a person in {right} of cases, all columns together
  in {together}. "Husband" and "Wife" *are* a sex.
- **How uneven it is** before anybody asks for anything: the smallest ratio and its cluster.

## Choose the columns

Segments that are made of `relationship` would be segments by sex under another name. We leave the
strongest proxies out. That is a choice: it also takes away what they say about households.

```text
$ {shown} {drop} -o second
{second}
```

The default bound on the gap is met. Read on to the next line: the smallest ratio, in which cluster.
If a small segment gets its own letter, that is the line that counts.

## Choose the rule, and hold rows out

The letter goes to everybody in a segment, so the mix of each matters: a ratio of 0.8, with three
tenths of the rows held out to see what is left of it on people that the fit has not met.

```text
$ {shown} {drop} \\
    --min-ratio 0.8 --hold-out 0.3 -o third
{third}
```

## Decide

- The rule is kept on the rows of the fit. On held-out rows it is kept less well; the certificate is
  what can be promised, and it is far weaker. With more rows it would be closer.
- The price is in the report, under "What other bounds would cost".
- What was *not* decided by any figure: that sex is the attribute to look at, that race and age are
  not, that six segments are enough, and what the letters say. Write those down beside the report.
"""


if __name__ == "__main__":
    main()
