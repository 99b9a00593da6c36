"""Equal blocks of large programs: found, proved once, instantiated."""
