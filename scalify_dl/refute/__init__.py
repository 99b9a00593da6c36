"""What a counterexample makes of a verdict, and whether a difference rests on a guess."""
