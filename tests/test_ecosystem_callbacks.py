"""scikit-learn's callbacks: told of a fit, its climbs and their iterations."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fairmix import FairMixture
from fairmix.datasets import make_grouped_blobs
from fairmix.fitting.schedule import SCHEDULE

callback = pytest.importorskip("sklearn.callback", reason="scikit-learn before 1.9 has none")

X, GROUPS, _ = make_grouped_blobs(300, 3, 2, separation=2.0, random_state=0)


class Journal:
    """A callback that keeps what it hears."""

    def __init__(self, stop=False):
        self.stop, self.begun, self.ended, self.life, self.fitted = stop, [], [], [], None

    def setup(self, estimator, context):
        self.life.append("setup")

    def teardown(self, estimator, context):
        self.life.append("teardown")

    def on_fit_task_begin(self, estimator, context, *, X=None, metadata=None):
        self.begun.append(context.task_name)
        if context.parent is None:
            self.data = X, metadata["sensitive_features"]

    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
        self.ended.append(context.task_name)
        if context.parent is None:
            self.fitted = fitted_estimator
        return self.stop


SETTINGS = [
    {"max_gap": 0.05},
    {"max_gap": 0.05, "assignment": "aware", "n_init": 2},
    {"fairness_strength": 0},
    {"solver": "gd", "fairness_strength": 2.0, "max_iter": 20},
    {"solver": "em", "max_gap": 0.05, "max_iter": 20},
]


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_fit_tells_its_callbacks(settings):
    model, journal = FairMixture(3, random_state=0, **settings), Journal()
    model.set_callbacks(journal).fit(X, sensitive_features=GROUPS)
    assert journal.life == ["setup", "teardown"]
    assert sorted(journal.begun) == sorted(journal.ended)
    assert journal.begun[0] == journal.ended[-1] == "fit"
    # A map with labels of a rule is climbed from the ends of several searches.
    aware = settings.get("assignment") == "aware"
    searched = "solver" not in settings and "max_gap" in settings
    search = SCHEDULE.search
    climbs = min(search.raced, search.walks(aware=aware, dear=False).number) if searched else 1
    # One more where labels lose much against their climb.
    more = journal.begun.count("climb") - settings.get("n_init", 1) * climbs
    assert more in ((0, 1) if searched else (0,))
    assert journal.begun.count("iteration") >= model.n_iter_
    assert journal.data == (X, GROUPS)
    np.testing.assert_array_equal(journal.fitted.predict(X, **_groups(model)), model.labels_)
    plain = clone(model).set_callbacks().fit(X, sensitive_features=GROUPS)
    np.testing.assert_array_equal(plain.labels_, model.labels_)


def _groups(model):
    return {"sensitive_features": GROUPS} if model.assignment == "aware" else {}


def test_a_fit_that_fails_ends_its_callbacks():
    journal = Journal()
    with pytest.raises(ValueError, match="at least as many rows"):
        FairMixture(9).set_callbacks(journal).fit(X[:5])
    assert journal.life == ["setup", "teardown"]
    assert journal.ended == []


def test_a_pipeline_hands_callbacks_on(capfd):
    pipe = make_pipeline(StandardScaler(), FairMixture(3, max_gap=0.05, random_state=0))
    pipe.set_callbacks(callback.ProgressBar())
    pipe.fit(X, fairmixture__sensitive_features=GROUPS)
    assert "FairMixture - climb" in capfd.readouterr().out


def test_the_wish_to_stop_is_refused_aloud():
    model = FairMixture(2, fairness_strength=0, random_state=0)
    with pytest.warns(UserWarning, match="asks to stop, and the fit goes on"):
        model.set_callbacks(Journal(stop=True)).fit(X)
