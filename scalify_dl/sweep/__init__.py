"""Many pairs, each verified by a process of its own, on one machine or several that share a folder."""
