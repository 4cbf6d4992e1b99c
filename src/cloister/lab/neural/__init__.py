"""Private neural ranking tried out: collections to re-rank, their candidates and folds."""
