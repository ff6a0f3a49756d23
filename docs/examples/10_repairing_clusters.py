"""
From an audit to a repair
=========================

Clusters are there already, an audit finds them uneven, and a repair moves rows until a rule is met,
at the least cost.
"""

# %%
# Clusters that somebody made
# ---------------------------
#
# K-means of three columns of Adult. An audit counts the women and the men in each cluster.

from sklearn.cluster import KMeans

from fairmix.datasets import load_adult
from fairmix.results import fairness_table

adult = load_adult()
columns = [adult.feature_names.index(name) for name in ("age", "education-num", "hours-per-week")]
X, sex = adult.X[:8000, columns], adult.sex[:8000]
X = (X - X.mean(axis=0)) / X.std(axis=0)
kmeans = KMeans(4, n_init=3, random_state=0).fit(X)
print(fairness_table(kmeans.labels_, sex, random_state=0))

# %%
# The repair
# ----------
#
# The four-fifths rule inside every cluster. The centres stay, so the clusters keep their meaning.

from fairmix import FairAssignment

model = FairAssignment(kmeans, prefit=True, min_ratio=0.8).fit(X, sensitive_features=sex)
moved = model.labels_ != kmeans.labels_
print(f"The rule is {model.verdict_.word}. {moved.mean():.1%} of the people moved.")

# %%
# What it costs
# -------------
#
# ``price`` is what the labels cost more than those of K-means. ``lower_bound`` says that no labels
# under this rule are cheaper, so nobody has to wonder whether another method would do better.

found = model.result_
print(f"price {found.price:.0f} on a cost of {found.cost:.0f}")
print(f"at most {found.relative_excess:.3%} above the best possible")

# %%
# Who moved
# ---------
#
# From where to where, by group. A repair moves people because of their group: look at who they are
# before you use it.

import numpy as np

for group in np.unique(sex):
    table = np.zeros((4, 4), dtype=int)
    there = moved & (np.asarray(sex) == group)
    np.add.at(table, (kmeans.labels_[there], model.labels_[there]), 1)
    print(group, table.tolist())

# %%
# Before and after
# ----------------

import matplotlib.pyplot as plt

from fairmix.plot import GroupSharesDisplay

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True, layout="constrained")
GroupSharesDisplay.from_predictions(kmeans.labels_, sex, ax=left)
GroupSharesDisplay.from_predictions(model.labels_, sex, ax=right)
left.set_title("K-means")
_ = right.set_title("Repaired")
