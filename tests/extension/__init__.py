"""Parts from outside the package: one file for each, which one line registers."""
