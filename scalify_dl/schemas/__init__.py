"""JSON Schemas of files that people or programs write, for editors and other tools."""
