"""Callbacks: scikit-learn's, where the installed version has them (1.9 and later).

A fit is a task with a climb from each start below it, and a climb one with its iterations.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from fairmix.solvers import Callback, Iteration

try:
    import sklearn.callback as framework
except ImportError:
    framework = None

Method = TypeVar("Method", bound=Callable[..., Any])
Support: Any = object if framework is None else framework.CallbackSupportMixin


def with_callbacks(method: Method) -> Method:
    """A fit that ends its callbacks, also when it fails."""
    if framework is None:
        return method
    decorated: Method = framework.with_callbacks(method)
    return decorated


class Callbacks(Support):
    """Tells callbacks how a fit goes; without any it costs nothing."""

    n_init: int

    @contextmanager
    def _task(self, **data: Any) -> Iterator[None]:
        """The fit, with the data that it has."""
        if not getattr(self, "_skl_callbacks", None):
            yield
            return
        context = self._init_callback_context(max_subtasks=self.n_init)
        context.call_on_fit_task_begin(estimator=self, **data)
        yield
        context.call_on_fit_task_end(estimator=self, reconstruction_attributes={}, **data)

    @contextmanager
    def _climb(self, at_most: int | None) -> Iterator[Callback | None]:
        """A climb of so many iterations, if that is known."""
        fit = getattr(self, "_callback_fit_ctx", None)
        if fit is None:
            yield None
            return
        context = fit.subcontext(task_name="climb", max_subtasks=at_most)
        context.call_on_fit_task_begin(estimator=self)

        def iterated(_: Iteration) -> None:
            task = context.subcontext(task_name="iteration")
            task.call_on_fit_task_begin(estimator=self)
            _refuse_stop(task.call_on_fit_task_end(estimator=self))

        yield iterated
        _refuse_stop(context.call_on_fit_task_end(estimator=self))


def _refuse_stop(wanted: bool) -> None:
    if wanted:
        warnings.warn(
            "A callback asks to stop, and the fit goes on: max_gap is met at its end. Lower "
            "max_iter for a shorter fit.",
            UserWarning,
            stacklevel=2,
        )
