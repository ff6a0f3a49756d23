"""
Auditing clusters from another tool
===================================

Given labels from any tool: how evenly are the groups spread, how certain is that, and what can you
share?
"""

# %%
# Somebody clustered 4,000 people with another tool, and then assigned 4,000 others to the clusters.
# An audit needs only the cluster and the group of each person. We audit the second 4,000, which the
# tool did not learn from: only such rows let us say anything beyond the rows themselves.

import pandas as pd
from sklearn.cluster import KMeans
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fairmix import metrics
from fairmix.datasets import load_adult

adult = load_adult()
everybody = pd.DataFrame(adult.X[:8000], columns=adult.feature_names)
everybody = everybody[["age", "education-num", "hours-per-week"]]
tool = make_pipeline(StandardScaler(), KMeans(4, n_init=10, random_state=0))
tool.fit(everybody[:4000])

people = everybody[4000:].assign(sex=adult.sex[4000:8000])
labels = tool.predict(everybody[4000:])

# %%
# Numbers
# -------

for name in ("gap", "worst_pair_gap", "balance", "rate_ratio"):
    print(f"{name:15} {getattr(metrics, name)(labels, people['sex']):.3f}")

# %%
# A sample shows a gap by chance alone. There are three ways to account for that: bootstrap
# intervals, which say how much the figures vary from sample to sample; the gap that a perfectly
# even map would show on as many rows; and a bound on the gap in the population.

from fairmix.results import certify, chance_gap, fairness_table

table = fairness_table(labels, people["sex"], random_state=0)
print(table)
shares = pd.Series(labels).value_counts(normalize=True, sort=False)
sizes = people["sex"].value_counts(sort=False)
print(f"by chance: 0 to {chance_gap(shares, sizes).quantile95:.3f}, in 95 % of all samples")
print(certify(labels, people["sex"]))

# %%
# A picture
# ---------

from fairmix.plot import GroupSharesDisplay

display = GroupSharesDisplay.from_predictions(labels, people["sex"])
_ = display.ax_.set_title(f"clusters of another tool: gap {metrics.gap(labels, people['sex']):.3f}")

# %%
# A report
# --------
#
# One HTML file to share, with aggregates only. :doc:`/how-to/report` says what it shows and what it
# hides.

from fairmix.report import render
from fairmix.results import Profile

html = render(Profile.from_frame(people, labels, "sex"), facts={"tool": "k-means"})
print(f"{len(html) / 1e3:.0f} kB")

# %%
# The same without Python, for a table that contains the labels:

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

with TemporaryDirectory() as folder:
    people.assign(cluster=labels).to_csv(Path(folder, "people.csv"), index=False)
    command = "audit people.csv --labels cluster --sensitive sex --out audit.html"
    run = subprocess.run(
        [sys.executable, "-m", "fairmix", *command.split()],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    print("$ fairmix", command)
    print(run.stdout)
