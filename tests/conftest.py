"""Settings of all tests: no deadline per example, since machines are shared and the first example pays for imports."""

from hypothesis import settings

settings.register_profile("shared machine", deadline=None)
settings.load_profile("shared machine")
