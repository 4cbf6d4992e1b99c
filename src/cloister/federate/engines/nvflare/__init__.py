"""The engine on NVFlare: its Collab API carries calls, its startup kits make the connections.

``kits.py`` makes startup kits, ``kit_keeper.py`` keeps one's process alive, ``job_folder.py`` is
the job that a training runs as, ``site_app.py`` and ``coordinator_app.py`` are the two ends of
it, and ``supervisor.py`` submits it again until all rounds are done. Needs the extra ``engines``.
"""
