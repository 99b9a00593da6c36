"""Which input, output and file of the distributed side is which of the baseline, in which placement; pairs → facts."""
