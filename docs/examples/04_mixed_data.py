"""
Numbers and categories together
===============================

A table with numeric and categorical columns needs no one-hot encoding and no distances.
"""

# %%
# ``mixed`` returns Adult as a table with five numeric and seven categorical columns. Any pandas,
# Polars or Arrow table will do. Columns of strings, categories or bools are categorical, unless
# ``categorical_features`` says otherwise.

from fairmix import FairMixture
from fairmix.datasets import load_adult

adult = load_adult()
wanted = ["age", "education-num", "hours-per-week", "workclass", "marital-status", "occupation"]
people = adult.mixed().select(wanted).slice(0, 5000)
sex = adult.sex[:5000]
print(people.schema)

# %%
# Adult writes "?" for what is not known. As it stands, it would be one more category, and ``fit``
# says so; missing values are integrated out instead.

import pyarrow as pa
import pyarrow.compute as pc

for j, name in enumerate(people.column_names):
    if pa.types.is_dictionary(people[name].type):
        text = people[name].cast(pa.string())
        people = people.set_column(j, name, pc.if_else(pc.equal(text, "?"), None, text))
print({name: people[name].null_count for name in people.column_names})

# %%
# Each component is a Gaussian for the numbers times a probability table for each categorical
# column, independent within the component. Sex and occupation are related in these data, so a bound
# has to move many people.

plain = FairMixture(4, fairness_strength=0, standardize=True, random_state=0)
fair = FairMixture(4, max_gap=0.02, assignment="aware", standardize=True, random_state=0)
for model in (plain, fair):
    model.fit(people, sensitive_features=sex)
    score = model.score(people)
    print(f"gap {model.label_gap_:.3f}  log-likelihood per row {score:.3f}")

# %%
# The likelihood is the yardstick here: a cost in squared distances would see only the numbers.
#
# ``probabilities_`` has one table per categorical column. The picture shows what characterises the
# clusters of the fair model: the eight most common occupations and their share in each cluster.

import matplotlib.pyplot as plt
import numpy as np

names = np.array(fair.categories_[2])
table = fair.probabilities_[2]
order = np.argsort(-(fair.weights_ @ table))[:8]
figure, ax = plt.subplots(figsize=(8, 3.6), layout="constrained")
image = ax.imshow(table[:, order], cmap="Blues", vmin=0, aspect="auto")
ax.set_xticks(range(len(order)), names[order], rotation=30, ha="right")
ax.set_yticks(range(4), [f"cluster {k}" for k in range(4)])
for k, j in np.ndindex(4, len(order)):
    share = table[k, order[j]]
    colour = "white" if share > table[:, order].max() / 2 else "black"
    ax.text(j, k, f"{share:.0%}", ha="center", va="center", color=colour)
_ = figure.colorbar(image, label="share within the cluster's component")

# %%
# With categories alone, many rows are equal and get equal labels, so a bound on labels may be out
# of reach. The fit then warns and says what it reached. ``gap_of="probabilities"`` bounds the
# probabilities instead.
