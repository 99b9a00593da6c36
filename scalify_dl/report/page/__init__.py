"""The page: what stands in it as text (`still.py`), what its scripts draw from (`data.py`), the scripts."""
