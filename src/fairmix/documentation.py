"""Documentation: links from an estimator's picture in a notebook to its page.

The site is the one that the installed package names in its metadata (``project.urls``); without one
there are no links.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from functools import cache
from importlib.metadata import PackageNotFoundError, metadata
from itertools import accumulate

PACKAGE = "fairmix"
LABEL = "Documentation"
# Where the site has the page of a public name.
PAGE = "reference/api/{public_name}.html"


class Documented:
    """For estimators; the attributes are those that scikit-learn asks for."""

    _doc_link_module = PACKAGE

    @property
    def _doc_link_template(self) -> str:
        return page_template(_project_urls())

    def _doc_link_url_param_generator(self) -> dict[str, str]:
        return {"public_name": public_name(type(self))}


def page_template(urls: Iterable[str]) -> str:
    """The address of a page, given the URLs of a package's metadata; empty without a site.

    Examples
    --------
    >>> page_template(["Documentation, https://docs.example/"])
    'https://docs.example/reference/api/{public_name}.html'
    """
    for entry in urls:
        label, _, url = entry.partition(", ")
        if label == LABEL:
            return f"{url.rstrip('/')}/{PAGE}"
    return ""


def public_name(kind: type) -> str:
    """The shortest path from which a class can be imported.

    Examples
    --------
    >>> from fairmix import FairMixture
    >>> public_name(FairMixture)
    'fairmix.FairMixture'
    """
    paths = accumulate(kind.__module__.split("."), lambda path, part: f"{path}.{part}")
    known = (path for path in paths if getattr(sys.modules[path], kind.__name__, None) is kind)
    return f"{next(known, kind.__module__)}.{kind.__name__}"


@cache
def _project_urls() -> tuple[str, ...]:
    try:
        return tuple(metadata(PACKAGE).get_all("Project-URL") or ())
    except PackageNotFoundError:
        return ()
