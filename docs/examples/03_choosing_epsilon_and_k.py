"""
Choosing epsilon and K
======================

What does each bound cost, and how many clusters should there be?
"""

# %%
# The bound
# ---------
#
# ``pareto_front`` fits one model per bound. ``inf`` stands for the plain mixture.

from math import inf

from fairmix import FairMixture, pareto_front, select_n_components
from fairmix.datasets import make_grouped_blobs

X, groups, _ = make_grouped_blobs(1200, 3, 2, separation=4.0, imbalance=0.3, random_state=2)
model = FairMixture(3, assignment="aware", random_state=0)
bounds = (0, 0.02, 0.05, 0.1, 0.2, inf)
front = pareto_front(model, X, sensitive_features=groups, max_gaps=bounds)
print(front)

# %%
# Read the table from the bottom: the last row is the plain mixture, and each row above it has a
# tighter bound. If a rule sets the gap, use that. Otherwise, look for the point where the cost
# begins to rise steeply for little gain.
#
# The number of clusters
# ----------------------
#
# ``select_n_components`` fits one model per K and compares them by BIC. Under a bound this is a
# heuristic (:doc:`/how-to/choose-the-number-of-clusters` says when it misleads), so also look at
# the choice without groups.

bounded = FairMixture(assignment="aware", max_gap=0.05, random_state=0)
choice = select_n_components(bounded, X, sensitive_features=groups, n_components=range(1, 6))
free = select_n_components(bounded, X, n_components=range(1, 6))
print(choice)
print("with the bound:", choice.best, "- without:", free.best)

# %%
# Both at once
# ------------

import matplotlib.pyplot as plt

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
front.plot(ax=left)
choice.plot(ax=right)
left.set_title("what a bound costs")
_ = right.set_title("how many clusters")

# %%
# Both pictures show the rows of the fit. Before you promise a gap for new rows, certify it on rows
# that played no part in the choice: see :doc:`/certificate`.
