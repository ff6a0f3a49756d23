"""Fuzz targets: each has ``seeds``, ``DICTIONARY`` and ``check``. See scripts/fuzz."""
