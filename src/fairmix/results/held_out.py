"""Held-out rows: what a fitted map does on rows that it has not learned from."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairmix.input.groups import attribute_columns, encode_groups, listed, match_groups
from fairmix.kernels.totals import IntArray
from fairmix.results.certificate import Certificate, certify, sampling_gap
from fairmix.results.fitted import Fitted, Rule
from fairmix.results.verdict import Verdict, judge_counts


def certify_held_out(
    fitted: Fitted, rule: Rule, assignment: NDArray[Any], groups: object, *, confidence: float
) -> Certificate:
    """The certificate of a fitted map, and a verdict on fresh rows.

    Parameters
    ----------
    fitted : Fitted
        The map, and how groups fare on the rows of its fit.
    rule : Rule
        What is asked of the rows; it may be another than that of the fit.
    assignment : (n,) labels or (n, K) probabilities
        What the map makes of the rows.
    groups : array-like or table
        Group of each row.
    confidence : float
        Probability that the bound holds.
    """
    if fitted.groups.attributes:
        return _each_attribute(fitted, rule, assignment, groups, confidence)
    judged = list(fitted.groups.names)
    # Judged groups come first, so that the codes below their number are theirs.
    known = [*judged, *fitted.groups.unjudged]
    missing = rule.missing_groups
    # A model that was fitted without groups can still be certified for those of these rows.
    if not known:
        known = list(encode_groups(groups, missing=missing).names)
    codes = match_groups(groups, known, n_rows=len(assignment), missing=missing)
    # Rows without a group say nothing, and neither do those of groups that are not judged. A single
    # judged group has nothing to be compared with, so the statement is then about all that are
    # known.
    named = judged if len(judged) > 1 else known
    stated = np.flatnonzero((codes >= 0) & (codes < len(named)))
    if not len(stated):
        raise ValueError(f"X has no row of the groups that the model judges: {listed(named)}.")
    found = certify(
        assignment[stated],
        np.asarray(named)[codes[stated]],
        criterion=rule.metric,
        confidence=confidence,
        n_clusters=fitted.n_components,
        groups=named,
    )
    rows = np.flatnonzero(codes >= 0)
    verdict, chance = _judge(fitted, rule, assignment[rows], codes[rows], known)
    return replace(found, verdict=verdict, chance=chance)


def _each_attribute(
    fitted: Fitted, rule: Rule, assignment: NDArray[Any], groups: object, confidence: float
) -> Certificate:
    """The certificates of several attributes, which share the error."""
    views, columns = fitted.by_attribute, attribute_columns(groups, fitted.groups)
    # With this confidence for each, all of them hold at once with that of all.
    shared = 1 - (1 - confidence) / len(views)
    found = {
        title: certify_held_out(
            view,
            replace(rule, limit=None if rule.limit is None else rule.limit.of(title)),
            assignment,
            columns[title],
            confidence=shared,
        )
        for title, view in views.items()
    }
    return Certificate.of_attributes(found, confidence)


def _judge(
    fitted: Fitted, rule: Rule, assignment: NDArray[Any], codes: IntArray, known: list[str]
) -> tuple[Verdict, float]:
    """The verdict on fresh rows, and the value on them that sampling explains."""
    judged = list(fitted.groups.names)
    fair = bool(judged or fitted.groups.unjudged)
    counts = np.zeros((len(known), fitted.n_components))
    if assignment.ndim == 1:
        np.add.at(counts, (codes, assignment), 1)
    else:
        np.add.at(counts, codes, assignment)
    verdict = judge_counts(
        counts,
        known,
        # Without groups the fit was asked for nothing that these rows could miss.
        rule.limit.of("") if fair and rule.limit is not None else np.inf,
        criterion=rule.criterion,
        min_group_size=rule.min_group_size,
        among=judged if fair else None,
        of=rule.of,
    )
    sizes = counts.sum(axis=1)
    where = [g for g, name in enumerate(judged) if sizes[g] and name not in verdict.unjudged]
    if len(where) < 2:
        return verdict, np.nan
    if assignment.ndim == 1:
        shares = counts[where].sum(axis=0) / sizes[where].sum()
        # Of one draw from a multinomial distribution.
        covariance = np.diag(shares) - np.outer(shares, shares)
    else:
        covariance = np.cov(assignment[np.isin(codes, where)], rowvar=False, ddof=0)
    # A fit that judges two groups has rates.
    assert fitted.fairness.rates is not None
    chance = sampling_gap(
        fitted.fairness.rates[where],
        fitted.groups.sizes[where],
        sizes[where],
        covariance,
        criterion=rule.metric,
    )
    return verdict, chance.quantile95
