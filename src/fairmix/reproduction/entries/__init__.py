"""The entries: one file per table or figure of the paper."""
