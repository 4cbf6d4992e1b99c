"""Text as terms: analysis, counts of terms in documents, statistics of terms, term weights."""
