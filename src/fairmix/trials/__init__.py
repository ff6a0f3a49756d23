"""Trials: one model fitted several times, under several bounds or numbers of clusters."""
