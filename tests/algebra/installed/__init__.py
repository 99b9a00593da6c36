"""Other people's libraries as they are installed, against Hugging Face's models and torch's own functions.

Nothing of them is here: they are imported, or looked for in the directories that `SCALIFY_LIBRARIES` names
(separated as in PATH), and where one is not found its tests are skipped.
"""
