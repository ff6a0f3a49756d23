"""Ratios against peers and floors, measured in one run. Not tests: see scripts/bench."""
