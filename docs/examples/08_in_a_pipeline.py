"""
In a scikit-learn pipeline
==========================

``FairMixture`` is a scikit-learn estimator: pipelines, searches and clones work as usual.
"""

# %%
# The groups travel as *metadata*. With scikit-learn's metadata routing they reach the steps that
# ask for them, and ``FairMixture`` asks.

import sklearn
from sklearn.decomposition import PCA
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fairmix import FairMixture
from fairmix.datasets import load_adult

adult = load_adult()
X, sex = adult.X[:3000], adult.sex[:3000]

pipeline = make_pipeline(StandardScaler(), PCA(2), FairMixture(3, max_gap=0.02, random_state=0))
with sklearn.config_context(enable_metadata_routing=True):
    pipeline.fit(X, sensitive_features=sex)
print(f"gap {pipeline[-1].gap_:.4f}")
print(pipeline.predict(X[:5]))

# %%
# Without routing, name the step: ``pipeline.fit(X, fairmixture__sensitive_features=sex)``.
#
# A picture of the last step
# --------------------------

from fairmix.plot import ComponentsDisplay

display = ComponentsDisplay.from_estimator(pipeline[-1], pipeline[:-1].transform(X))
_ = display.ax_.set(xlabel="first principal component", ylabel="second")

# %%
# A search
# --------
#
# ``score`` is the mean log-likelihood of the density, so a search over the covariance compares how
# well it describes held-out rows. Every fit meets the bound; the search does not compare bounds. To
# choose one, look at its price instead: :doc:`03_choosing_epsilon_and_k`.

search = GridSearchCV(
    pipeline,
    {"fairmixture__covariance_type": ["tied-spherical", "diag", "full"]},
    cv=KFold(3, shuffle=True, random_state=0),
)
with sklearn.config_context(enable_metadata_routing=True):
    search.fit(X, sensitive_features=sex)
for kind, score in zip(
    search.cv_results_["param_fairmixture__covariance_type"],
    search.cv_results_["mean_test_score"],
    strict=True,
):
    print(f"{kind:15} {score:.3f}")
print("chosen:", search.best_params_, f"gap {search.best_estimator_[-1].gap_:.4f}")
