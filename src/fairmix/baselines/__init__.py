"""Fair clustering methods from other papers, as scikit-learn clusterers, for comparison."""

from fairmix.baselines.aligned_fair_kmeans import AlignedFairKMeans
from fairmix.baselines.fairlet_kmeans import FairletKMeans
from fairmix.baselines.variational_fair_kmeans import VariationalFairKMeans

__all__ = ["AlignedFairKMeans", "FairletKMeans", "VariationalFairKMeans"]
