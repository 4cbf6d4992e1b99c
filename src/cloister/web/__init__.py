"""What every HTTP service shares: TLS, callers and roles, limits, refusals, health, metrics, logs.

Nothing here knows of searching or learning. A service (`cloister.services`) says which routes it
has and who may call each; what is not said is refused.
"""
