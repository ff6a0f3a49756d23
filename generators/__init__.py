"""One module for each page, picture, table and data file that is kept here and not written by hand.

``scripts/generate NAME [arguments]`` runs one in the project's environment.
"""
