"""The console: pages for people who search, run, watch, attack and forget.

Pages are rendered here, on the server; a little script of ours makes them live. Every figure on
them is asked of the running system when the page is asked for, or is the result of a run that the
page names. ``scene`` is what a console shows; one module a page; ``console`` puts them together;
``guard`` stands before all of them.
"""
