"""Autologging of MLflow: off while a fit uses estimators of scikit-learn for its own ends."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from fairmix.system.threads import Gate


def _off() -> AbstractContextManager[Any]:
    # Not imported for this: whoever logs has imported it.
    utils = sys.modules.get("mlflow.utils.autologging_utils")
    # MLflow's own context turns it on again at its end, so one that is off already stays alone.
    if utils is None or getattr(utils, "_AUTOLOGGING_GLOBALLY_DISABLED", False):
        return nullcontext()
    context: AbstractContextManager[Any] = utils.disable_autologging()
    return context


_without_autologging = Gate(_off)


def without_autologging() -> AbstractContextManager[None]:
    """A context in which MLflow logs no estimator by itself, for all threads of the process.

    A fit starts from k-means and learns P(group | x) by a regression. Logged, they would pass for
    the user's model, the regression with the groups as its target.

    Examples
    --------
    >>> with without_autologging():
    ...     1 + 1
    2
    """
    return _without_autologging
