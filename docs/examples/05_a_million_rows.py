"""
A million rows
==============

Learn the components from a sample, and the fair assignment from all rows.
"""

# %%
# This page uses 12,000 rows, to be quick. Change one number for more: the number of parameters does
# not grow with the number of rows, and every step is a sum over rows, so time grows in proportion.
# The rows are synthetic, drawn from statistics of the 1990 US census.

from fairmix import FairMixture
from fairmix.datasets import make_census_like

census = make_census_like(12_000)
print(census.X.shape)

# %%
# ``subsample`` is the paper's sub-sample learning: the components are learned from that many rows.
# Then a few passes over all rows find the tilt that meets the bound on all of them.

import numpy as np

sizes = (300, 1000, 5000)
scores, gaps = np.empty((2, len(sizes), 3))
for i, size in enumerate(sizes):
    for seed in range(3):
        model = FairMixture(
            4, assignment="aware", subsample=size, standardize=True, random_state=seed
        )
        model.fit(census.X, sensitive_features=census.sex)
        scores[i, seed], gaps[i, seed] = model.score(census.X), model.label_gap_
    print(f"{size:6,} rows: log-likelihood {scores[i].mean():.2f}, gap up to {gaps[i].max():.4f}")

# %%
# What a larger sample gives
# --------------------------

import matplotlib.pyplot as plt

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
for ax, values in ((left, scores), (right, gaps)):
    ax.plot(sizes, values, ".", color="0.6")
    ax.plot(sizes, values.mean(axis=1), "o-", color="#0072B2", label="mean of three samples")
    ax.set(xscale="log", xlabel="rows to learn from")
    ax.set_xticks(sizes, [f"{size:,}" for size in sizes], minor=False)
    ax.minorticks_off()
left.set_ylabel("log-likelihood per row, all rows")
right.axhline(0.01, color="black", linestyle="--", linewidth=1, label="bound")
right.set(ylabel="gap of the labels, all rows", ylim=(0, 0.015))
_ = right.legend()

# %%
# The bound holds on all rows for every sample, because the tilt is solved for on all of them. A
# small sample costs likelihood, but soon more rows bring little more.
#
# Other ways to use many rows
# ---------------------------
#
# - ``batch_size``: the paper's mini-batches, which visit all rows, one batch at a time.
# - ``partial_fit``: rows that arrive batch by batch (:doc:`/how-to/streams`).
# - Files larger than memory: ``model.fit("census.parquet", sensitive_features="SEX")``
#   (:doc:`/how-to/large-data`).
# - Several machines: :doc:`06_on_dask_workers`.
