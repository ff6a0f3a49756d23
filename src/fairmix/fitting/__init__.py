"""Fitting: from settings and data to a fitted model."""
