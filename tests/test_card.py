"""Model cards state what was measured, in sections that skops knows, and escape what users name."""

import json
import re
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fairmix import FairMixture, load, model_card

N_ROWS = 300


def people(group_names: tuple[str, ...] = ("f", "m")) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(0)
    part = rng.integers(2, size=N_ROWS)
    table = pd.DataFrame(
        {
            "age": rng.normal(3 * part),
            "hours": rng.normal(size=N_ROWS),
            "job": np.array(list("xyz"))[part + rng.integers(2, size=N_ROWS)],
        }
    )
    group = (part + rng.integers(len(group_names), size=N_ROWS)) % len(group_names)
    return table, np.array(group_names)[group]


def fitted(*, groups: Any = None, **settings: Any) -> FairMixture:
    table, own = people()
    model = FairMixture(2, random_state=0, **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(table, sensitive_features=own if groups is None else groups)


def with_figures(model: FairMixture, **figures: float) -> FairMixture:
    """The model as if its fit had ended with other figures."""
    model._publish(replace(model.fitted_, fairness=replace(model.fitted_.fairness, **figures)))
    return model


def headings(card: str) -> list[str]:
    return re.findall(r"^#+ .*$", card, re.MULTILINE)


def cells(card: str, first: str) -> list[str]:
    """The other cells of the table row that begins with a text."""
    row = next(line for line in card.splitlines() if line.startswith(f"| {first} |"))
    return [cell.strip() for cell in row.strip("|").split("|")][1:]


def test_sections_are_those_of_a_skops_card():
    card = model_card(fitted(max_gap=0.05))
    assert headings(card) == [
        "# Model description",
        "## Intended uses & limitations",
        "## Training Procedure",
        "### Hyperparameters",
        "## Evaluation Results",
        "# How to Get Started with the Model",
        "# Citation",
    ]
    templates = pytest.importorskip("skops.card._templates", reason="skops is not installed")
    known = {name.split("/")[-1] for name in templates.SKOPS_TEMPLATE}
    assert {heading.lstrip("# ") for heading in headings(card)} <= known


def test_front_matter_is_yaml():
    card = model_card(fitted(max_gap=0.05), license='a "b": c')
    lines = card.split("---\n")[1].splitlines()
    found = {line.split(": ", 1)[0]: json.loads(line.split(": ", 1)[1]) for line in lines}
    assert found["library_name"] == "fairmix"
    assert found["license"] == 'a "b": c'
    assert "fairness" in found["tags"]
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    assert yaml.safe_load(card.split("---\n")[1]) == found


def test_figures_are_those_of_the_model():
    model = fitted(max_gap=0.05)
    card = model_card(model)
    assert cells(card, "gap of the labels") == [f"{model.gap_:.4f}, the bound 0.05 is met"]
    assert cells(card, "gap of the probabilities") == [f"{model.soft_gap_:.4f}"]
    assert cells(card, "balance of the labels") == [f"{model.balance_:.4f}"]
    sizes = model.group_sizes_
    best = f"{sizes.min() / sizes.max():.4f}"
    assert cells(card, "balance of all rows, the most that is possible") == [best]
    assert cells(card, "rows") == ["300"]
    assert cells(card, "all")[1:] == [f"{size} rows" for size in sizes]
    for k in range(2):
        expected = [f"{rate:.1%}" for rate in (model.weights_[k], *model.rates_[:, k])]
        assert cells(card, str(k)) == expected
    assert cells(card, "numeric columns") == ["2: age, hours"]
    assert cells(card, "categorical columns (categories)") == ["1: job (3)"]
    assert "No certificate" in card
    assert "sees the columns only" in card


def test_a_bound_that_is_missed_is_said():
    model = with_figures(fitted(max_gap=0.05), label_gap=0.3)
    assert cells(model_card(model), "gap of the labels") == ["0.3000, the bound 0.05 is **missed**"]
    exact = fitted(max_gap=0.0)
    exact = with_figures(exact, label_gap=exact.resolution_ / 2)
    assert "met, as closely as whole rows can" in cells(model_card(exact), "gap of the labels")[0]


def test_a_ratio_is_said_in_words_with_its_cluster_and_group():
    model = fitted(min_ratio=0.8, assignment="aware")
    card = model_card(model)
    assert "its share that falls into the cluster, is at least this many times that of any" in card
    assert "other group: min_ratio=0.8 for the labels" in card
    assert "A high ratio says" in card
    assert "A small gap says" not in card
    assert "On new rows the ratio differs" in card
    g, k = np.unravel_index((model.rates_ / model.rates_.max(axis=0)).argmin(), (2, 2))
    where = f"({'fm'[g]}, cluster {k})"
    said = cells(card, "smallest ratio of rates of the labels")
    assert said == [f"{model.ratio_:.4f}, the bound 0.8 is met {where}"]
    # The rule is on the ratio: gap and balance are figures without a verdict.
    assert cells(card, "gap of the labels") == [f"{model.gap_:.4f}"]
    assert cells(card, "balance of the labels") == [f"{model.balance_:.4f}"]
    (missed,) = cells(
        model_card(with_figures(model, ratio=0.5)), "smallest ratio of rates of the labels"
    )
    assert missed == f"0.5000, the bound 0.8 is **missed** {where}"
    table, groups = people()
    with pytest.warns(UserWarning, match="rows that the model was fitted to"):
        certificate = model.certify(table, groups)
    certified = model_card(model, certificate=certificate)
    assert f"is at least {certificate.lower_bound:.4f}" in certified
    assert "The bound 0.8 on the ratio is met on these rows." in certified


def test_a_balance_is_said_in_words():
    model = fitted(min_balance=0.5, assignment="aware")
    card = model_card(model)
    assert "the rows of each group are at least this many times those of any other" in card
    assert "min_balance=0.5 for the labels" in card
    assert cells(card, "balance of the labels") == [f"{model.balance_:.4f}, the bound 0.5 is met"]
    assert "over-represented without limit" in card
    plain = cells(card, "smallest ratio of rates of the labels")[0]
    assert plain.startswith(f"{model.ratio_:.4f} (")


def test_other_strengths_claim_no_bound():
    plain = model_card(fitted(fairness_strength=0))
    assert "no limit here" in plain
    assert "bound" not in cells(plain, "gap of the labels")[0]
    assert "penalty of strength 2" in model_card(fitted(fairness_strength=2.0))


def test_aware_and_stopped_models_say_so():
    card = model_card(fitted(max_gap=0.05, assignment="aware", max_iter=1))
    assert "two rows that differ only in it can get different clusters" in card
    assert "predict(X, sensitive_features=groups)" in card
    assert ("The fit stopped before it converged" in card) == (
        not fitted(max_gap=0.05, assignment="aware", max_iter=1).converged_
    )


def test_without_groups_nothing_is_claimed():
    table, _ = people()
    card = model_card(FairMixture(2, random_state=0).fit(table))
    assert "No groups were given, so nothing is known of how groups spread" in card
    assert "balance of" not in card
    assert "ratio of" not in card
    assert "nan" not in card
    assert "spread over the clusters in nearly equal shares" not in card


def test_certificate_intended_use_and_metadata(tmp_path):
    model = fitted(max_gap=0.05)
    table, groups = people()
    with pytest.warns(UserWarning, match="rows that the model was fitted to"):
        certificate = model.certify(table, groups)
    saved = model.save(tmp_path / "model.fairmix", metadata={"data": "made up", "rows": [1, 2]})
    card = model_card(load(saved), certificate=certificate, intended_use="For a *test*.")
    assert f"at most {certificate.upper_bound:.4f}" in card
    assert "For a *test*." in card
    assert "[More Information Needed]" not in card
    assert cells(card, "data") == ["made up"]
    assert cells(card, r"rows") == ["300"]
    assert r"| rows | \[1, 2\] |" in card


def test_names_cannot_be_markup():
    table, _ = people()
    nasty = "<script>x</script>|a\n# b `c` [d](e)"
    _, groups = people((nasty, "m"))
    card = model_card(
        FairMixture(2, fairness_strength=0, random_state=0).fit(
            table.rename(columns={"age": nasty}), sensitive_features=groups
        )
    )
    assert "<script>" not in card
    assert r"&lt;script&gt;x&lt;/script&gt;\|a # b \`c\` \[d\](e)" in card
    assert len(headings(card)) == 7


def test_many_groups_and_small_ones():
    groups = np.array([f"g{i % 14}" for i in range(N_ROWS)])
    card = model_card(fitted(groups=groups, fairness_strength=0, min_group_size=1))
    assert "Not shown: 2 more groups." in card
    assert len(cells(card, "0")) == 1 + 12
    groups[:3] = "few"
    card = model_card(fitted(groups=groups, fairness_strength=0, min_group_size=10))
    assert "Not judged, because they are small: few (3 rows)." in card


def test_an_unfitted_model_has_no_card():
    with pytest.raises(ValueError, match="not fitted"):
        model_card(FairMixture())


def test_no_word_of_more_than_was_measured():
    card = model_card(fitted(max_gap=0.05)).lower()
    for claim in ("debias", "unbiased", "removes bias", "solves", "is fair"):
        assert claim not in card
