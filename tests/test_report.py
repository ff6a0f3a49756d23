"""The report says what was measured, in one file, and nothing of any row."""

import json
import re
import warnings
from dataclasses import replace
from html.parser import HTMLParser
from math import inf
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fairmix import FairMixture, pareto_front
from fairmix.criteria import CRITERIA
from fairmix.datasets import make_grouped_blobs
from fairmix.report import render
from fairmix.report.disclosure import SafeCounts
from fairmix.report.features import portraits
from fairmix.report.figures import amount
from fairmix.report.verdict import box, compared, judged
from fairmix.results.certificate import certify
from fairmix.results.profile import Profile
from fairmix.results.verdict import Verdict, judge_counts
from fairmix.studies import FrontRow, ParetoFront

HOSTILE = "<script>alert(1)</script>"


class Page(HTMLParser):
    """The text, the scripts and the addresses of a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.text, self.scripts, self.addresses, self._script = "", [], [], None
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.text += " "
        self.addresses += [values[name] for name in ("src", "href", "action") if name in values]
        if tag in ("script", "style"):
            self._script = tag, values
        if tag == "script":
            self.scripts.append((values, ""))

    def handle_endtag(self, tag):
        self._script = None if tag in ("script", "style") else self._script

    def handle_data(self, data):
        if self._script is None:
            self.text += data
        elif self._script[0] == "script":
            values, text = self.scripts[-1]
            self.scripts[-1] = values, text + data

    @property
    def words(self) -> str:
        return " ".join(self.text.split())

    def chart(self, name: str) -> dict:
        (found,) = [text for values, text in self.scripts if values.get("data-chart") == name]
        return json.loads(found)


def people(n_rows: int = 400) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1], n_rows // 2)
    frame = pd.DataFrame(
        {
            "age": rng.normal(40, 5, n_rows) + 20 * labels,
            "town": np.where(labels, rng.choice(["A", "B"], n_rows, p=[0.9, 0.1]), "B"),
            "sex": np.tile(["f", "m"], n_rows // 2),
        }
    )
    return frame, labels


def described(frame, labels):
    """The portraits of two clusters by sex."""
    profile = Profile.from_frame(frame, labels, "sex")
    return portraits(profile, [SafeCounts.of(profile.counts)], [0, 1])


def top(profile, model=None, certificate=None):
    """The box at the top of the report."""
    verdict, criterion = judged(profile, model), "gap" if model is None else model.criterion
    part = compared(profile, verdict)
    left = [name for name in profile.groups if name not in part.groups]
    safe = SafeCounts.of(part.counts)
    return box(part, safe, verdict, criterion, model, certificate, left_out=left)


@pytest.fixture(scope="module")
def fitted():
    X, groups, _ = make_grouped_blobs(600, 3, 2, separation=1.5, imbalance=0.3, random_state=0)
    model = FairMixture(3, max_gap=0.02, assignment="aware", random_state=0)
    model.fit(X, sensitive_features=groups)
    front = pareto_front(
        FairMixture(3, assignment="aware", random_state=0),
        X,
        sensitive_features=groups,
        max_gaps=(0, 0.02, 0.1, inf),
    )
    return X, groups, model, front


@pytest.fixture(scope="module")
def profile(fitted):
    X, groups, model, _ = fitted
    return Profile.from_frame(X, model.labels_, groups, clusters=["0", "1", "2"])


def test_an_audit_of_foreign_labels_needs_no_model_and_no_library():
    frame, labels = people()
    html = render(Profile.from_frame(frame, np.array(["left", "right"])[labels], "sex"))
    page = Page(html)
    assert "one cluster is 0.0000." in page.words
    assert "Cluster left 200 rows, 50.0% gap 0.0000" in page.words
    assert "There is no certificate" in page.words
    assert "This is not a legal opinion" in page.words
    assert "What other bounds would cost" not in page.words
    assert "Convergence" not in page.words
    assert len(html) < 60_000


def test_the_whole_report_has_every_part(fitted, profile):
    _, groups, model, front = fitted
    certificate = certify(model.labels_, groups, n_clusters=3)
    html = render(
        profile, model=model, front=front, certificate=certificate, facts={"file": "blobs.csv"}
    )
    page = Page(html)
    assert "The bound is met: the groups differ most in cluster" in page.words
    assert f"is {model.label_gap_:.4f}, and the bound is 0.02." in page.words
    assert f"gap of the probabilities (soft) {model.soft_gap_:.4f}" in page.words
    (bound,) = re.findall(r"is at most ([\d.]+) in the population", page.words)
    # Rates within Hoeffding's distance, instead of exact intervals that would tell counts.
    sizes = list(certificate.group_sizes.values())
    reach = sum(np.sqrt(np.log(2 * 6 / 0.05) / (2 * n)) for n in sizes)
    step = 1 / min(sizes)
    assert certificate.gap + reach <= float(bound) <= certificate.gap + reach + step + 2e-4
    assert float(bound) > certificate.upper_bound
    assert "file blobs.csv" in page.words
    assert "seed 0" in page.words
    assert "aware: a row's cluster depends on its columns and on its group" in page.words
    for row in front.rows:
        assert f"{row.gap:.4f}" in page.words
    for heading in (
        "Groups in each cluster",
        "What characterises each cluster",
        "Convergence",
        "Limits",
    ):
        assert heading in page.words
    assert html == render(
        profile, model=model, front=front, certificate=certificate, facts={"file": "blobs.csv"}
    ), "the same input gives the same file"


def test_the_page_is_one_file_below_two_megabytes_and_loads_nothing(fitted, profile):
    _, _, model, front = fitted
    html = render(profile, model=model, front=front)
    assert len(html.encode()) < 2_000_000
    page = Page(html)
    assert page.addresses == []
    assert "@import" not in html
    assert "url(" not in html.split("</style>")[0]
    (policy,) = re.findall(r'Security-Policy" content="([^"]*)"', html)
    assert policy.startswith("default-src 'none'")
    assert "unsafe-eval" not in policy
    executed = [text for values, text in page.scripts if "type" not in values]
    assert policy.count("'sha256-") == len(executed) == 4
    assert html.count("Copyright (c) 2015") == 3, "each library keeps its licence"


def test_a_front_holds_the_figures_of_its_rows_and_chooses_the_models_bound(fitted, profile):
    _, _, model, front = fitted
    chart = Page(render(profile, model=model, front=front)).chart("chart-front")
    values = chart["data"]["values"]
    assert [value["figure"] for value in values] == pytest.approx(
        [row.gap for row in front.rows], abs=5e-5
    )
    assert [value["quality"] for value in values] == pytest.approx(
        [row.cost for row in front.rows], rel=1e-5
    )
    assert values[-1]["kind"] == "no bound"
    assert chart["params"] == [{"name": "chosen", "value": 1}]
    alone = Page(render(profile, front=front)).chart("chart-front")
    assert alone["params"][0]["value"] == 0


def test_a_front_without_models_or_cost_is_drawn_by_likelihood(profile):
    row = FrontRow(0.0, 0.01, 0.01, 0.01, 0.5, np.nan, 2.5, 3, "missed")
    page = Page(render(profile, front=ParetoFront((row,))))
    (value,) = page.chart("chart-front")["data"]["values"]
    assert value["quality"] == 2.5
    assert value["kind"] == "bound missed"
    assert "data-panel" not in page.text


def test_the_shares_of_each_point_are_those_of_its_model(fitted, profile):
    _, _, model, front = fitted
    html = render(profile, model=model, front=front)
    panels = html.split('data-panel="')[1:]
    assert len(panels) == len(front.models)
    for panel, fit in zip(panels, front.models, strict=True):
        mass = fit.rates_ * fit.group_sizes_[:, None]
        shares = mass / mass.sum(axis=0)
        found = re.findall(r'class="number">([\d.]+)%', panel)[: shares.size]
        assert [float(text) for text in found] == pytest.approx(
            (100 * shares).T.ravel().tolist(), abs=0.051
        )


def test_hostile_names_are_text_everywhere():
    frame, labels = people()
    frame = frame.rename(columns={"age": HOSTILE, "sex": f"{HOSTILE}&sex"})
    frame["town"] = frame["town"].replace({"A": f"</script>{HOSTILE}"})
    frame[f"{HOSTILE}&sex"] = frame[f"{HOSTILE}&sex"].replace({"f": HOSTILE})
    names = np.array([HOSTILE, "\u2028'\"><img onerror=alert(1)>"])
    html = render(
        Profile.from_frame(frame, names[labels], f"{HOSTILE}&sex"), facts={HOSTILE: HOSTILE}
    )
    assert HOSTILE not in html
    assert "<img" not in html
    assert Page(html).words.count(HOSTILE) > 10


def test_small_cells_are_nowhere_in_the_file():
    frame, labels = people(4000)
    frame.loc[frame.index[:3], "sex"] = "x"
    frame["town"] = "A"
    frame.loc[7, "town"] = "Loneliest"
    profile = Profile.from_frame(frame, labels, "sex")
    page = Page(render(profile))
    assert "Not shown: x (fewer than 10 rows)." in page.words
    assert "rows 3,997" in page.words
    assert "4,000" not in page.words
    assert "Loneliest" not in page.text
    labels = np.where(np.isin(np.arange(4000), [3, 4, 5]), 2, labels)
    words = Page(render(Profile.from_frame(frame, labels, "sex"))).words
    assert "Clusters 0, 2 together 1,997 rows, 50.0% f " in words
    assert "Cluster 1 2,000 rows, 50.0% gap " in words


def test_features_are_ranked_by_standardised_difference_and_keep_few_rows_hidden():
    frame, labels = people()
    portrait = described(frame, labels)
    assert [feature.column for feature in portrait[1].numbers] == ["age"]
    expected = (frame["age"][200:].mean() - frame["age"].mean()) / frame["age"].std(ddof=0)
    assert portrait[1].numbers[0].difference == pytest.approx(expected)
    top = portrait[1].categories[0]
    share, overall = (frame["town"][200:] == "A").mean(), (frame["town"] == "A").mean()
    assert (share, overall) == (0.9, 0.45)
    # Steps of 10 rows at least: 5 % of 200 rows, and more of all rows where those would tell.
    assert (top.category, top.here, top.overall) == ("A", "90 ± 2.5%", "45 ± 2.5%")
    assert top.lift == "× 2.0"
    frame.loc[frame.index[200:], "town"] = "A"
    frame.loc[frame.index[-3:], "town"] = "B"
    almost = described(frame, labels)[1].categories
    assert [(feature.category, feature.here) for feature in almost] == [("A", "above 97.5%")]


def test_a_tiny_cluster_is_not_described():
    frame, labels = people()
    labels = np.where(np.arange(400) < 3, 2, labels)
    page = Page(render(Profile.from_frame(frame, labels, "sex")))
    assert "Cluster 2 Too few rows to be described." in page.words


def test_the_verdict_says_when_a_bound_is_missed_and_when_rows_are_others(fitted):
    X, groups, model, _ = fitted
    shifted = np.where(np.arange(600) % 4 == 0, 0, model.labels_)
    shifted = np.where(np.asarray(groups) == groups[0], shifted, model.labels_)
    other = Profile.from_frame(X, shifted, groups, clusters=["0", "1", "2"])
    said = top(other, model)
    assert said.state == "missed"
    assert said.headline.startswith("The bound is missed: ")
    words = r"In the fit, the gap of the labels was at most (0\.\d{4}), because"
    shown = float(re.search(words, said.notes[0])[1])
    # Rounded up, to no more digits than a reader may know.
    assert model.label_gap_ <= shown < model.label_gap_ + 0.001


def test_a_bound_on_probabilities_is_judged_by_them():
    X, groups, _ = make_grouped_blobs(600, 3, 3, separation=1.5, imbalance=0.3, random_state=0)
    groups = np.arange(600) % 3 + 10 * np.asarray(groups)
    model = FairMixture(3, max_gap=0.05, gap_of="probabilities", criterion="worst_pair_gap")
    model.set_params(assignment="aware", random_state=0).fit(X, sensitive_features=groups)
    profile = Profile.from_frame(X, model.labels_, groups, clusters=["0", "1", "2"])
    page = Page(render(profile, model=model))
    assert (
        f"any two groups that fall into one cluster, measured by probabilities, is "
        f"{model.soft_gap_:.4f}, and the bound is 0.05."
    ) in page.words
    assert f"For the labels it is {model.label_gap_:.4f}." in page.words
    assert f"worst pair gap {model.label_gap_:.4f}" in page.words
    assert "the bound applies to probabilities" in page.words


def test_a_plain_mixture_has_no_bound_to_meet(fitted):
    X, groups, _, _ = fitted
    plain = FairMixture(3, fairness_strength=0, random_state=0).fit(X, sensitive_features=groups)
    profile = Profile.from_frame(X, plain.labels_, groups)
    said = top(profile, plain)
    assert said.state == "measured"
    assert said.sentence.startswith("No bound is set. ")
    assert f"is {plain.label_gap_:.4f}." in said.sentence
    assert "a ratio of 0.550" in said.headline
    assert not any("smallest ratio of two groups" in note for note in said.notes)


def model_of(word, *, bound=0.02, unjudged=0, **settings):
    """A model with a certain verdict, some of whose rows are of a third group, and its profile."""
    X, groups, _ = make_grouped_blobs(600, 3, 2, separation=1.5, imbalance=0.3, random_state=0)
    model = FairMixture(3, max_gap=bound, assignment="aware", random_state=0, **settings)
    names = np.where(np.asarray(groups) == 0, "a", "b").astype("U9")
    names[:unjudged] = "rare"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, sensitive_features=names)
    assert model.verdict_ == word
    return model, Profile.from_frame(X, model.labels_, names, clusters=["0", "1", "2"])


def held_out(word, *, value=0.03, chance=0.05, unjudged=None):
    """A certificate of held-out rows with a given verdict."""
    found = certify([0, 1, 2] * 100, ["a", "b"] * 150)
    verdict = Verdict(word, value, 0.02, 0.001, unjudged or {})
    return replace(found, verdict=verdict, chance=chance)


@pytest.mark.parametrize(
    ("certificate", "state", "words"),
    [
        (None, "met", "The bound is met: "),
        (held_out("met", value=0.019), "met", "The bound is met: "),
        (
            held_out("missed"),
            "chance",
            "The bound is met on the rows of the fit; held-out rows are above it, within chance: ",
        ),
        (
            held_out("missed", value=0.0819),
            "missed",
            "The bound is missed on held-out rows, by more than chance explains, and met on the ",
        ),
        (
            held_out("not judged", value=np.nan, chance=np.nan),
            "measured",
            "The bound is met on the rows of the fit; held-out rows are too few to judge: ",
        ),
    ],
)
def test_the_box_is_of_both_verdicts(certificate, state, words):
    model, profile = model_of("met")
    said = top(profile, model, certificate)
    assert (said.state, said.headline[: len(words)]) == (state, words)
    assert f"is {model.gap_:.4f}" in said.sentence
    judged = certificate is not None and certificate.verdict.met is not None
    assert ("held-out rows, and the bound is 0.02." in said.sentence) == judged
    if judged:
        # Rounded up to one of the 150 held-out rows of a group, but not past a bound that is met.
        seen = {0.019: "0.0200", 0.03: "0.0334", 0.0819: "0.0867"}[certificate.verdict.value]
        both = f"is {model.gap_:.4f} on the rows of the fit and at most {seen} on held-out rows"
        assert both in said.sentence
        assert not any("Chance explains" in note for note in said.notes)
    page = render(profile, model=model, certificate=certificate)
    assert f'class="verdict {state}"' in page
    assert said.sentence in Page(page).words


def test_a_missed_fit_is_missed_whatever_held_out_rows_say():
    model, profile = model_of("met")
    model.label_gap_ = 0.3
    fairness = replace(model.fitted_.fairness, label_gap=0.3)
    model.fitted_ = replace(model.fitted_, fairness=fairness)
    for certificate in (None, held_out("met", value=0.01), held_out("missed")):
        said = top(profile, model, certificate)
        assert (said.state, said.headline[:20]) == ("missed", "The bound is missed:")


def test_groups_that_are_not_judged_are_named_and_in_no_table(fitted):
    model, profile = model_of("met for the judged groups", unjudged=3)
    html = render(profile, model=model)
    page = Page(html)
    assert 'class="verdict partly"' in html
    assert "The bound is met for the judged groups: the groups differ most in " in page.words
    assert f"T{CRITERIA['gap'].words[1:]} is " in page.words
    assert f"{model.gap_:.4f}, and the bound is 0.02." in page.words
    assert "Not judged: rare (fewer than 10 rows)." in page.words
    assert "not judged rare (fewer than 10 rows)" in page.words
    assert page.words.count("rare") == 2
    assert "share of all 597 rows of the groups that are shown" in page.words
    assert "600" not in page.words
    assert "size hidden" not in page.words
    assert "gap hidden" not in page.words
    model, profile = model_of("met for the judged groups", unjudged=29)
    page = Page(render(profile, model=model))
    assert "Not judged: rare (29 rows)." in page.words
    held = held_out("met", value=0.01, unjudged={"rare": 3, "b": 17})
    notes = top(profile, model, held).notes
    assert "Not judged among the held-out rows: b (17 rows)." in notes


def test_a_bound_that_is_not_judged_is_neither_met_nor_missed():
    model, profile = model_of("not judged", min_group_size=500)
    html = render(profile, model=model, certificate=held_out("not judged"))
    words = Page(html).words
    assert 'class="verdict measured"' in html
    assert "The bound is not judged: fewer than two groups have enough rows." in words
    assert "gap not judged smallest ratio not judged balance not judged" in words
    assert "share of all 600 rows: where" in words
    front = ParetoFront((FrontRow(0.1, *[np.nan] * 4, 9.0, 2.5, 3, "not judged"),), (model,))
    assert (
        "What other bounds would cost" not in Page(render(profile, model=model, front=front)).words
    )


def test_a_met_bound_below_a_row_says_so():
    model, profile = model_of("met", bound=0.0)
    assert 0 < model.gap_ <= model.resolution_
    within = (
        f"the bound is 0 (met as closely as whole rows allow, to within {model.resolution_:.2g})."
    )
    assert within in top(profile, model).sentence


def test_a_front_has_a_column_of_verdicts(fitted, profile):
    _, _, model, front = fitted
    table = render(profile, model=model, front=front).split('id="front"')[1].split("</table>")[0]
    assert re.findall(r'words">([^<]*)<', table) == ["met", "met", "met", "no bound"]


def test_the_worst_cluster_is_named_or_said_to_be_hidden():
    """Cluster 0 is the least even one and has few f; cluster 1 is uneven, too, and shown."""
    counts = np.array([[3, 120, 877], [400, 60, 540]])
    labels = np.concatenate([np.repeat([0, 1, 2], row) for row in counts])
    sex = np.repeat(["f", "m"], 1000)
    profile = Profile.from_frame(pd.DataFrame({"x": labels * 1.0}), labels, sex)
    notes = top(profile).notes
    assert (
        "The smallest ratio of two groups' rates is in cluster 0, whose counts are hidden. "
        "It is below 0.8." in notes
    )
    assert "The groups differ most in a cluster whose counts are hidden." in notes
    assert not any("in cluster 1" in note for note in notes)
    counts[0] = [30, 120, 850]
    labels = np.concatenate([np.repeat([0, 1, 2], row) for row in counts])
    profile = Profile.from_frame(pd.DataFrame({"x": labels * 1.0}), labels, sex)
    said = top(profile)
    where = "cluster 0, which holds 3.0% of the group f and 40.0% of the group m, a ratio of 0.075"
    assert where in said.headline
    # The notes do not say it again.
    assert said.notes[0] == (
        "Cluster 0 has 21.5% of the rows; 7.0% of them are f, against 50.0% of all rows."
    )
    assert not any("which holds" in note for note in said.notes)


def test_a_met_bound_is_not_said_to_be_more():
    """A gap that is rounded up to hide counts is not rounded past the bound that it meets."""
    frame, labels = people(4000)
    sex = frame["sex"].to_numpy().copy()
    sex[:] = "m"
    sex[:60:2], sex[2001:2060:2] = "f", "f"
    labels = labels.copy()
    labels[np.flatnonzero(sex == "f")[:3]] = 2
    labels[np.flatnonzero(sex == "m")[:300]] = 2
    profile = Profile.from_frame(frame[["age"]], labels, sex)
    for bound, said in ((0.06, "at most 0.0334"), (0.03, "at most 0.0300")):
        verdict = judge_counts(profile.counts, profile.groups, bound)
        assert verdict.word == "met"
        words = Page(render(profile, verdict=verdict)).words
        assert "The bound is met: " in words
        assert f"is {said}, and the bound is {bound}." in words


def test_one_group_has_nothing_to_compare():
    frame, labels = people()
    page = Page(render(Profile.from_frame(frame, labels, ["all"] * 400)))
    assert "There is only one group (all), so there is nothing to compare." in page.words


def test_many_clusters_groups_and_points_stay_below_two_megabytes(fitted):
    rng = np.random.default_rng(0)
    groups = [f"a rather long name of a group, number {g}" for g in range(12)]
    names = [f"column number {j} with a rather long name" for j in range(40)]
    profile = Profile(numeric=names, groups=groups, n_clusters=80)
    block = pd.DataFrame(rng.normal(size=(20_000, 40)), columns=names)
    profile.add(block, rng.integers(80, size=20_000), rng.choice(groups, 20_000))
    html = render(profile, front=fitted[3])
    assert len(html.encode()) < 1_500_000
    assert "The 50 smallest clusters are not drawn." in Page(html).words


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.0, "0"),
        (-0.0, "0"),
        (1234.5, "1,230"),
        (-38.58, "-38.6"),
        (1e-5, "1e-05"),
        (1e9, "1e+09"),
    ],
)
def test_numbers_have_three_digits(number, text):
    assert amount(number) == text


def test_the_page_on_reports_runs_as_printed():
    text = (Path(__file__).parents[1] / "docs" / "how-to" / "report.md").read_text("utf-8")
    names = {}
    exec("\n".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL)), names)
    assert names["profile"].n_rows == 900
    assert "The bound is met" in Page(names["html"]).words
    assert "is at most" in Page(names["html"]).words
    assert "There is no certificate" in Page(names["audit"]).words
