"""
With fairlearn
==============

fairlearn measures how a model treats groups, and it can measure clusters too.
"""

# %%
# ``MetricFrame`` computes any metric for each group. Its metrics compare two columns, so we pass
# the clusters twice. This needs ``pip install fairlearn``.

import pandas as pd
from fairlearn.metrics import MetricFrame

from fairmix import FairMixture, metrics
from fairmix.datasets import load_adult

adult = load_adult()
columns = [adult.feature_names.index(name) for name in ("age", "education-num", "hours-per-week")]
X, sex = adult.X[:4000, columns], pd.Series(adult.sex[:4000], name="sex")

plain = FairMixture(3, fairness_strength=0, standardize=True, random_state=0)
fair = FairMixture(3, max_gap=0.01, standardize=True, random_state=0)
models = {"no bound": plain, "max_gap=0.01": fair}
for model in models.values():
    model.fit(X, sensitive_features=sex)


def share_of(cluster):
    """The share of the rows that are in a cluster, as a figure for MetricFrame."""
    return lambda y_true, y_pred: (y_pred == cluster).mean()


figures = {f"cluster {k}": share_of(k) for k in range(3)}
frames = {
    name: MetricFrame(
        metrics=figures, y_true=model.labels_, y_pred=model.labels_, sensitive_features=sex
    )
    for name, model in models.items()
}
for name, frame in frames.items():
    print(name, frame.by_group.round(3), sep="\n")

# %%
# ``difference`` is the largest difference between groups for each metric. Its maximum over all
# clusters is fairmix's ``worst_pair_gap`` and, with two groups, also its ``gap``.

for name, model in models.items():
    largest = frames[name].difference().max()
    print(f"{name:13} fairlearn {largest:.4f}  fairmix {metrics.gap(model.labels_, sex):.4f}")

# %%
# ``MetricFrame`` draws itself:

import matplotlib.pyplot as plt

figure, axes = plt.subplots(1, 2, figsize=(9, 3.4), sharey=True, layout="constrained")
for ax, (name, frame) in zip(axes, frames.items(), strict=True):
    frame.by_group.T.plot.bar(ax=ax, rot=0, color=["#0072B2", "#E69F00"])
    ax.set(title=name, ylabel="share of the group in the cluster")
axes[0].get_legend().remove()
_ = axes[1].legend(title="sex")

# %%
# If the labels feed a decision, continue with fairlearn there: it is the decision, not the cluster,
# that affects people.
