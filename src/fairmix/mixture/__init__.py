"""Mixtures: families, weights, P(group | x), and the fitted map of rows to clusters."""
