"""Engines: how a federation of sites is carried between processes, and what it carries.

An engine only carries calls (``engine.py``, ``site_call.py``); here is the one inside a process
(``in_process.py``). The coordinator's side is ``federation.py``, a site's side is ``site.py``. Both
hold the same ``agreement.py`` before a training begins.
"""
