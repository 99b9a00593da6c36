"""Facts into the engine, rules to their fixpoint, obligations discharged; verdicts and results as data."""
