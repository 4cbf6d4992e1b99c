"""The coordinator: rounds on a schedule, trials of new rankers, its ledger."""
