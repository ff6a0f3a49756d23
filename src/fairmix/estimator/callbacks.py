"""Callbacks: scikit-learn's, where the installed version has them (1.9 and later).

A fit is a task with a climb from each start below it, and a climb one with its iterations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

from fairmix.fitting.schedule import Watch
from fairmix.solvers import Callback, Iteration
from fairmix.system.notices import notify

try:
    import sklearn.callback as framework
except ImportError:
    # Older versions fit as well, without callbacks.
    framework = None

Method = TypeVar("Method", bound=Callable[..., Any])
# A base class of estimators that callbacks can be set on.
CallbackSupport: Any = object if framework is None else framework.CallbackSupportMixin


def with_callbacks(method: Method) -> Method:
    """A fit that ends its callbacks, also when it fails."""
    if framework is None:
        return method
    decorated: Method = framework.with_callbacks(method)
    return decorated


@contextmanager
def task(estimator: Any, **data: Any) -> Iterator[None]:
    """The fit of an estimator, with the data that it has; without callbacks it costs nothing."""
    if not getattr(estimator, "_skl_callbacks", None):
        yield
        return
    # Nothing ends the task after an error here: `with_callbacks` does.
    # How many climbs there are is up to the schedule of the fit.
    context = estimator._init_callback_context(max_subtasks=None)
    context.call_on_fit_task_begin(estimator=estimator, **data)
    yield
    context.call_on_fit_task_end(estimator=estimator, reconstruction_attributes={}, **data)


def climbing(estimator: Any) -> Watch:
    """Tells callbacks of the climbs of a fit."""
    return partial(_climb, estimator)


@contextmanager
def _climb(estimator: Any, at_most: int | None) -> Iterator[Callback | None]:
    """A climb of so many iterations, if that is known."""
    # None where no callback is set, as `task` then makes no context.
    fit = getattr(estimator, "_callback_fit_ctx", None)
    if fit is None:
        yield None
        return
    context = fit.subcontext(task_name="climb", max_subtasks=at_most)
    context.call_on_fit_task_begin(estimator=estimator)

    def iterated(_: Iteration) -> None:
        iteration = context.subcontext(task_name="iteration")
        iteration.call_on_fit_task_begin(estimator=estimator)
        _refuse_stop(iteration.call_on_fit_task_end(estimator=estimator))

    yield iterated
    _refuse_stop(context.call_on_fit_task_end(estimator=estimator))


def _refuse_stop(wanted: bool) -> None:
    if wanted:
        notify(
            "A callback asks to stop, and the fit goes on: max_gap is met at its end. Lower "
            "max_iter for a shorter fit."
        )
