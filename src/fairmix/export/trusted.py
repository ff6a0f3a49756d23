"""Types of the package in a fitted estimator: what a loader of skops files is to trust."""

from __future__ import annotations

# Each is a value that skops fills: nothing in them is called while a file is read. A list, because
# MLflow writes it into a file and takes nothing else.
SKOPS_TYPES = [
    "fairmix.baselines.aligned_fair_kmeans.AlignedFairKMeans",
    "fairmix.baselines.fairlet_kmeans.FairletKMeans",
    "fairmix.baselines.variational_fair_kmeans.VariationalFairKMeans",
    "fairmix.criteria.limits.ByAttribute",
    "fairmix.criteria.limits.MaxGap",
    "fairmix.criteria.limits.MinBalance",
    "fairmix.criteria.limits.MinRatio",
    "fairmix.estimator.fair_mixture.FairMixture",
    "fairmix.fitting.stream.Stream",
    "fairmix.input.columns.Columns",
    "fairmix.input.groups.Attribute",
    "fairmix.input.groups.Groups",
    "fairmix.kernels.totals.Logits",
    "fairmix.kernels.totals.Membership",
    "fairmix.kernels.totals.Rows",
    "fairmix.mixture.families.categorical.Categorical",
    "fairmix.mixture.families.gaussian.Gaussian",
    "fairmix.mixture.families.product.Product",
    "fairmix.mixture.mixture.Mixture",
    "fairmix.mixture.model.Model",
    "fairmix.mixture.propensity.Propensity",
    "fairmix.mixture.propensity.Scale",
    "fairmix.repair.assignment.FairAssignment",
    "fairmix.repair.clusters.Centres",
    "fairmix.repair.clusters.Described",
    "fairmix.repair.clusters.Normals",
    "fairmix.repair.labels.FairLabels",
    "fairmix.results.fitted.Fairness",
    "fairmix.results.fitted.Fitted",
    "fairmix.results.fitted.Rule",
    "fairmix.results.verdict.Verdict",
    "fairmix.solvers._base.Beginning",
    "fairmix.solvers._base.Iteration",
    "fairmix.solvers.online.OnlineState",
    "fairmix.solvers.online.Reservoir",
]
"""Names of all types of the package that its fitted estimators hold.

For ``skops.io.load(path, trusted=SKOPS_TYPES)`` and ``mlflow.sklearn.log_model(model,
skops_trusted_types=SKOPS_TYPES)``. Estimators of other packages, inside a `FairAssignment` or
beside it in a pipeline, may need names of their own.
"""
