"""
On the workers of Dask
======================

The same fit on the workers of a Dask cluster, with the same bits.
"""

# %%
# A cluster on this machine stands in for a real one; with ``Client("tcp://scheduler:8786")`` the
# rest of the page stays the same. This needs an extra: ``pip install 'fairmix[dask]'``.

import dask.array as da
import numpy as np
from distributed import Client, LocalCluster

from fairmix import FairMixture
from fairmix.datasets import make_grouped_blobs

X, groups, _ = make_grouped_blobs(20_000, 3, 2, separation=3.0, imbalance=0.3, random_state=0)
settings = {"assignment": "aware", "max_gap": 0.01, "random_state": 0}
here = FairMixture(3, **settings).fit(X, sensitive_features=groups)

# %%
# Workers keep their rows and send back sums. The rows are divided into blocks that do not depend on
# the workers, and the sums are added in the order of the blocks. That is why nothing changes, not
# even the last digit.

# Threads keep this page quick. Leave ``processes`` out for one process per worker.
with (
    LocalCluster(
        n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None
    ) as cluster,
    Client(cluster),
):
    rows, their_groups = da.from_array(X, chunks=(5000, 2)), da.from_array(groups, chunks=5000)
    there = FairMixture(3, **settings).fit(rows, sensitive_features=their_groups)
    labels = there.predict(rows, sensitive_features=their_groups).compute()

print("same means:", np.array_equal(here.means_, there.means_))
print("same labels:", np.array_equal(here.labels_, labels))
print(f"gap {there.gap_:.4f}")

# %%
# The two fits agree at every step. The objective does not rise at every step, because it moves with
# the tilt that meets the bound:

import matplotlib.pyplot as plt

figure, ax = plt.subplots(figsize=(6, 3.4), layout="constrained")
ax.plot(here.history_["objective"], color="#E69F00", linewidth=4, label="in memory")
ax.plot(there.history_["objective"], "o", color="#0072B2", markersize=4, label="on the cluster")
ax.set(xlabel="iteration", ylabel="objective")
_ = ax.legend()

# %%
# If a worker dies, the others read its rows again and the fit continues. With
# ``checkpoint="fit.checkpoint"`` it also survives a crash of the program.
