"""Live capture: programs of a framework, traced without data, written as dumps or verified at once."""
