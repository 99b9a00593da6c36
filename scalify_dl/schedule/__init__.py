"""When: schedules of events on many ranks, and whether they can hang, race, read too early; what they cost."""
