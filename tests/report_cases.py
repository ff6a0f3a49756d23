"""Six reports: met, missed, not judged, held out missed, two attributes, large."""

import warnings
from functools import cache

import numpy as np
import pandas as pd

from fairmix import FairMixture
from fairmix.report import render, report_of
from fairmix.results import judge_counts
from fairmix.results.profile import Profile
from fairmix.studies import ParetoFront
from fairmix.trials.walks import Trials


def people(n_rows, seed=0):
    """Adults whose hours and age depend on sex, with a region."""
    rng = np.random.default_rng(seed)
    sex = np.where(rng.random(n_rows) < 0.4, "women", "men")
    women = sex == "women"
    kind = rng.integers(0, 3, n_rows)
    return pd.DataFrame(
        {
            "age": np.round(30 + 9 * kind + rng.normal(0, 4, n_rows) - 2 * women, 1),
            "hours": np.round(45 - 6 * kind + rng.normal(0, 5, n_rows) - 4 * women, 1),
            "married": np.where(rng.random(n_rows) < 0.3 + 0.2 * kind, "yes", "no"),
            "sex": sex,
            "region": np.where(rng.random(n_rows) < 0.3 + 0.1 * kind, "north", "south"),
        }
    )


@cache
def fitted(bound=0.02, seed=0, n_rows=900):
    """A blind fit by sex."""
    rows = people(n_rows, seed).drop(columns="region")
    model = FairMixture(3, max_gap=bound, standardize=True, random_state=0)
    return rows, model.fit(rows, sensitive_features="sex")


def met(front=False):
    """The bound is met; with other bounds on request."""
    rows, model = fitted()
    found = None
    if front:
        # As the command makes it: other bounds from the model itself.
        X, groups = rows.drop(columns="sex"), rows[["sex"]]
        trials = Trials(FairMixture(**model.get_params()), X, groups)
        found = ParetoFront(*trials.around(model, "max_gap", (0.0, 0.02, 0.1, np.inf)))
    return page(rows, model, "sex", front=found)


def page(rows, model, groups, **more):
    """The page that a model writes."""
    return report_of(model, rows, groups, **more)


def missed():
    """Other rows than those of the fit, whose groups are further apart."""
    _, model = fitted()
    rows = people(900, seed=5).drop(columns="region")
    rows.loc[rows["sex"] == "women", "hours"] -= 6
    return page(rows, model, "sex")


def not_judged():
    """Women are too few to be judged, and enough to be shown."""
    rows = people(400, seed=1).drop(columns="region")
    women = rows["sex"] == "women"
    rows = pd.concat([rows[~women], rows[women][:25]])
    model = FairMixture(2, standardize=True, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(rows, sensitive_features="sex")
        return page(rows, model, "sex")


def held_out_missed():
    """Held-out rows are further apart than chance explains."""
    rows, model = fitted()
    fresh = people(3000, seed=7).drop(columns="region")
    fresh.loc[fresh["sex"] == "women", ["hours", "age"]] -= 12
    certificate = model.certify(fresh, "sex")
    return page(rows, model, "sex", certificate=certificate)


def two_attributes():
    """Sex and region, each by itself."""
    rows = people(900)
    model = FairMixture(3, max_gap=0.03, standardize=True, attributes="each", random_state=0)
    model.fit(rows, sensitive_features=["sex", "region"])
    return page(rows, model, ["sex", "region"])


def large():
    """A million rows in 24 clusters and five groups, from counts."""
    rng = np.random.default_rng(2)
    groups = ["north", "east", "south", "west", "abroad"]
    profile = Profile(groups=groups, n_clusters=24, title="region")
    shares = rng.dirichlet(np.full(24, 4.0))
    for g, size in enumerate((400_000, 250_000, 200_000, 120_000, 30_000)):
        profile.counts[g] = rng.multinomial(size, rng.dirichlet(3000 * shares))
    verdict = judge_counts(profile.counts, groups, 0.05)
    return render(profile, verdict=verdict)


CASES = {
    "met": met,
    "missed": missed,
    "not judged": not_judged,
    "held out missed": held_out_missed,
    "two attributes": two_attributes,
    "large": large,
}
