"""The one graph model: tensors, ops and their shape rules, literals, meshes, layouts, placements, sizes as formulas."""
