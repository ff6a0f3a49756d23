"""Writes the kept model files of the current schema: python tests/models/make.py

Run it for each schema when it is new, and for each new case. A file that exists is never written
again: the files stand for all files that users have. Each holds in its metadata some made-up rows
and what the model said of them.
"""

from pathlib import Path

import numpy as np
import pandas as pd

from fairmix import FairMixture
from fairmix.export.model_file.snapshot import SCHEMA

FOLDER = Path(__file__).parent / f"schema-{SCHEMA}"
LEVELS = np.array(["[0, 10)", "naïve", "other"])


def people(n_rows: int, seed: int) -> tuple[pd.DataFrame, list[str]]:
    """Made-up columns and groups."""
    rng = np.random.default_rng(seed)
    group, part = rng.integers(2, size=n_rows), rng.integers(2, size=n_rows)
    table = pd.DataFrame(
        {
            "age": rng.normal(40 + 5 * part, 4) + group,
            "hours": rng.normal(size=n_rows) * 3 + 8 * part,
            "job": LEVELS[(group + rng.integers(2, size=n_rows)) % 3],
        }
    )
    return table, np.array(["a", "b"])[group].tolist()


CASES = {
    "gaussian-blind": (["age", "hours"], {"covariance_type": "full"}),
    "gaussian-plain-array": (["age", "hours"], {"covariance_type": "diag", "fairness_strength": 0}),
    "gaussian-no-groups": (["age", "hours"], {}),
    "categorical-blind": (["job"], {"fairness_strength": 1.0}),
    "mixed-blind": (["age", "job"], {"fairness_strength": 1.0, "standardize": True}),
    "mixed-aware": (["age", "job"], {"assignment": "aware", "standardize": True}),
    "categorical-split": (["job"], {"assignment": "aware", "ties": "split"}),
    "gaussian-ratio": (["age", "hours"], {"max_gap": "auto", "min_ratio": 0.8, "margin": 0.05}),
    "mixed-balance": (["age", "job"], {"max_gap": "auto", "min_balance": 0.6, "standardize": True}),
}

if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, (columns, settings) in CASES.items():
        if (FOLDER / f"{name}.fairmix").exists():
            continue
        table, groups = people(600, 0)
        # Equal rows that share labels out take more than six.
        new, new_groups = people(60 if "ties" in settings else 6, 1)
        X, rows = table[columns], new[columns]
        if name.endswith("no-groups"):
            groups = new_groups = None
        if name.endswith("array"):
            X, rows = X.to_numpy(), rows.to_numpy()
        model = FairMixture(2, **{"max_gap": 0.05, "random_state": 0, **settings})
        model.fit(X, sensitive_features=groups)
        known = {
            "rows": rows.to_dict("list") if isinstance(rows, pd.DataFrame) else rows.tolist(),
            "groups": new_groups,
            "labels": model.predict(rows, sensitive_features=new_groups).tolist(),
            "probabilities": model.predict_proba(rows, sensitive_features=new_groups).tolist(),
            "log_densities": model.score_samples(rows).tolist(),
            "verdict": model.verdict_,
            # NaN has no place in a file.
            "ratio": None if np.isnan(model.ratio_) else model.ratio_,
        }
        model.save(FOLDER / f"{name}.fairmix", metadata=known)
