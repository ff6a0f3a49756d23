"""
Your first fair clustering, in five minutes
===========================================

Cluster people by age, education and working hours, so that women and men are spread over the
clusters in nearly equal proportions.
"""

# %%
# The data
# --------
#
# Adult is a sample of the 1994 US census and comes with the package. We take 8,000 people and three
# numeric columns. The *sensitive feature*, sex, is not a column of ``X``: it only says which group
# a person belongs to.

from fairmix.datasets import load_adult

adult = load_adult()
columns = [adult.feature_names.index(name) for name in ("age", "education-num", "hours-per-week")]
X, sex = adult.X[:8000, columns], adult.sex[:8000]
print(X.shape, f"{(sex == 'Female').mean():.0%} women")

# %%
# Without a bound
# ---------------
#
# K-means knows nothing about groups. ``gap`` is the largest difference, over all clusters, between
# the share of the women and the share of the men that a cluster holds.

from sklearn.cluster import KMeans
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fairmix import metrics

kmeans = make_pipeline(StandardScaler(), KMeans(4, n_init=10, random_state=0))
usual = kmeans.fit_predict(X)
print(f"gap {metrics.gap(usual, sex):.3f}, balance {metrics.balance(usual, sex):.3f}")

# %%
# With a bound
# ------------
#
# ``max_gap`` is the bound: the shares may not differ by more than 0.01 in any cluster. The rest is
# as in scikit-learn. The bound applies to the labels that ``predict`` returns.

from fairmix import FairMixture

model = FairMixture(4, max_gap=0.01, standardize=True, random_state=0)
model.fit(X, sensitive_features=sex)
print(f"gap {model.gap_:.4f}, balance {model.balance_:.3f}")

# %%
# ``predict`` assigns new people to clusters without knowing their sex:

print(model.predict([[30, 13, 40], [61, 9, 20]]))

# %%
# Look at it
# ----------
#
# Each bar is a cluster, divided by sex. The dashed line is the share in all rows; thin lines are
# 95 % intervals.

import matplotlib.pyplot as plt

from fairmix.plot import GroupSharesDisplay

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True, layout="constrained")
GroupSharesDisplay.from_predictions(usual, sex, ax=left)
GroupSharesDisplay.from_predictions(model.labels_, sex, ax=right)
left.get_legend().remove()
right.set_ylabel("")
left.set_title(f"K-means: gap {metrics.gap(usual, sex):.3f}")
_ = right.set_title(f"FairMixture: gap {model.gap_:.3f}")

# %%
# What it costs
# -------------
#
# The clusters of the fair mixture are wider, as the squared distances to their means show, in
# standardised columns. Tighter clusters with the same gap are possible if the map may use each
# person's group: see :doc:`02_blind_or_aware`.

Z = kmeans[0].transform(X)
for name, labels in {"K-means": usual, "FairMixture": model.labels_}.items():
    print(f"{name:12} {metrics.clustering_cost(Z, labels):8,.0f}")

# %%
# A small gap only says how women and men are spread over these clusters. Whether the clusters are
# useful, and whether sex is the right group to look at, is for you to decide.
