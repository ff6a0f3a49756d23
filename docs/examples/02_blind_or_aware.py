"""
Blind or aware
==============

May the map from rows to clusters look at the group? We fit the same bound both ways.
"""

# %%
# A *blind* map sees only the columns: two people with equal columns are always in the same cluster,
# and ``predict`` needs no group. An *aware* map also sees the group. Both need the groups of the
# training rows.
#
# Four blobs of points, each of which attracts one of two groups:

from fairmix import FairMixture, metrics
from fairmix.datasets import make_grouped_blobs

X, groups, _ = make_grouped_blobs(1500, 4, 2, separation=3.0, imbalance=0.35, random_state=1)

models = {
    "no bound": FairMixture(4, fairness_strength=0, random_state=0),
    "blind": FairMixture(4, max_gap=0.02, random_state=0),
    "aware": FairMixture(4, max_gap=0.02, assignment="aware", random_state=0),
}
for name, model in models.items():
    model.fit(X, sensitive_features=groups)
    cost = metrics.clustering_cost(X, model.labels_)
    print(f"{name:8}  gap {model.label_gap_:.3f}  balance {model.balance_:.2f}  cost {cost:7,.0f}")

# %%
# Both meet the bound. The aware map pays far less for it, because it can move just the surplus rows
# of one group out of a cluster. The blind map must move whole regions, with both groups in them.
# See :doc:`/theory/blind-and-aware` for why no other map of the columns alone does better.

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.metrics import confusion_matrix

palette = np.array(["#0072B2", "#E69F00", "#009E73", "#CC79A7"])
plain = models["no bound"].labels_
figure, axes = plt.subplots(1, 3, figsize=(10, 3.6), sharex=True, sharey=True, layout="constrained")
for ax, (name, model) in zip(axes, models.items(), strict=True):
    # The colour of a cluster is that of the plain one with which it shares most rows.
    shared = confusion_matrix(model.labels_, plain)
    colours = palette[linear_sum_assignment(shared, maximize=True)[1]]
    for group, marker in enumerate("o^"):
        own = groups == group
        ax.scatter(*X[own].T, s=11, c=colours[model.labels_[own]], marker=marker, linewidths=0)
    ax.set(title=f"{name}: gap {model.label_gap_:.3f}", xticks=[], yticks=[])
_ = figure.supxlabel("colour: cluster; circle or triangle: group")

# %%
# The price comes with ``predict``: an aware model needs the group of every new row.

print(models["blind"].predict(X[:5]))
print(models["aware"].predict(X[:5], sensitive_features=groups[:5]))

# %%
# An aware map may put two people with the same columns into different clusters because of their
# groups. Whether that is acceptable is a question of law and purpose, not of mathematics.

twin = np.repeat(X[:400], 2, axis=0)
both = models["aware"].predict(twin, sensitive_features=np.tile([0, 1], 400)).reshape(-1, 2)
print(f"{np.mean(both[:, 0] != both[:, 1]):.0%} of the rows would change clusters with their group")
