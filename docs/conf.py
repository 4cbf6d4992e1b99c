"""Sphinx configuration; ``make docs`` builds with warnings as errors."""

from __future__ import annotations

import re
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Any, cast

from furo.navigation import get_navigation_tree
from sphinx.domains.python import PythonDomain
from sphinx.environment.adapters.toctree import global_toctree_for_doc

import cloister

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sphinx.application import Sphinx
    from sphinx.builders import Builder
    from sphinx.builders.html import StandaloneHTMLBuilder
    from sphinx.domains.python import ObjectEntry
    from sphinx.environment import BuildEnvironment

project = "Cloister"
author = "The Cloister founders"
copyright = "2026, the Cloister founders"
release = cloister.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
]
autosummary_generate = True
autodoc_typehints = "description"
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "exclude-members": "model_config"}
napoleon_google_docstring = False
napoleon_use_rtype = False
default_role = "code"
myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence"]
templates_path = ["_templates"]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = "Cloister"
html_copy_source = False


# The sidebar lists every page. Furo makes it anew for each page, so its time grows with the square
# of their number: it was most of the build. Here it is made once for each depth of folder, and for
# a page only the way to it is marked, as Furo would mark it.
_TAG = re.compile(
    r'(<ul>|<li class="[^"]*">|<input [^>]*>|<a class="reference [^"]*" href="[^"]*">'
    r"|</ul>|</li>)"
)


class Sidebar:
    """The tree of all pages as seen from one depth of folder."""

    def __init__(self, builder: StandaloneHTMLBuilder, depth: int) -> None:
        self.builder = builder
        self.seen_from = "-/" * depth + "-"  # no page has this name, so none is marked
        tree = global_toctree_for_doc(
            builder.env, self.seen_from, builder, tags=builder.tags, titles_only=True, maxdepth=-1
        )
        self.parts = _TAG.split(get_navigation_tree(builder.render_partial(tree)["fragment"]))
        self.ways = dict(self._ways())

    def _ways(self) -> Iterator[tuple[str, list[int]]]:
        """For each link, find the lists, items and checkboxes that it lies in, then itself."""
        inside: list[list[int]] = []
        links: list[int] = []
        for place, part in enumerate(self.parts):
            if part.startswith(("<ul>", "<li ")):
                inside.append([place])
            elif part.startswith("<input "):
                inside[-1].append(place)
            elif part.startswith("<a "):
                links.append(place)
            elif part == "</li>":
                link = links.pop()
                yield self.parts[link].split('"')[3], [*chain.from_iterable(inside), link]
            if part in ("</ul>", "</li>"):
                inside.pop()

    def at(self, pagename: str) -> str:
        """Return the tree with the way to a page marked and opened."""
        way = self.ways.get(self.builder.get_relative_uri(self.seen_from, pagename))
        if way is None:
            return "".join(self.parts)
        parts = list(self.parts)
        for place in way:
            parts[place] = _marked(parts[place])
        item = max(place for place in way if parts[place].startswith("<li "))
        parts[item] = parts[item].replace('">', ' current-page">')
        parts[way[-1]] = '<a class="current reference internal" href="#">'
        return "".join(parts)


def _marked(tag: str) -> str:
    if tag == "<ul>":
        return '<ul class="current">'
    if tag.startswith("<li "):
        return re.sub(r"(toctree-l\d+)", r"\1 current", tag)
    return tag.replace(" class=", ' checked="" class=', 1)


class IndexedPython(PythonDomain):
    """Sphinx's, but for names such as ``int`` it does not look through all that is documented."""

    _last_words: frozenset[str] = frozenset()
    _n_objects = 0

    def find_obj(
        self, env: BuildEnvironment, modname: str, classname: str, name: str, *more: Any
    ) -> list[tuple[str, ObjectEntry]]:
        """Find what a name may mean: only what ends in the name's last word."""
        if self._n_objects != len(self.objects):
            self._n_objects = len(self.objects)
            self._last_words = frozenset(known.rpartition(".")[2] for known in self.objects)
        if name.removesuffix("()").rpartition(".")[2] not in self._last_words:
            return []
        return super().find_obj(env, modname, classname, name, *more)


def setup(app: Sphinx) -> None:
    """Put both in their places; Furo is given no tree to work on, and the finished one is shown."""
    app.add_domain(IndexedPython, override=True)

    @cache
    def sidebar(depth: int) -> Sidebar:
        return Sidebar(cast("StandaloneHTMLBuilder", app.builder), depth)

    def make_once(_app: Sphinx, _builder: Builder) -> None:
        """Make it for the depths of all documents before the build splits into processes."""
        for depth in {name.count("/") for name in app.env.found_docs}:
            sidebar(depth)

    def drop_unused_sources(_app: Sphinx, env: BuildEnvironment) -> None:
        """Leave out sources that no page links to; read in parallel, viewcode keeps a few."""
        modules = getattr(env, "_viewcode_modules", {})
        for name in [name for name, entry in modules.items() if entry and not entry[2]]:
            del modules[name]

    def hide(_app: Sphinx, _page: str, _template: str, context: dict[str, Any], _tree: Any) -> None:
        context["toctree"] = lambda **_options: ""

    def show(_app: Sphinx, page: str, _template: str, context: dict[str, Any], _tree: Any) -> None:
        context["furo_navigation_tree"] = sidebar(page.count("/")).at(page)

    app.connect("env-check-consistency", drop_unused_sources)
    app.connect("write-started", make_once)
    app.connect("html-page-context", hide, priority=400)  # Furo's own comes at 500
    app.connect("html-page-context", show, priority=600)
