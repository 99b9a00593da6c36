"""Large dims, of which no element is followed: one formula for all places of a block, with a variable for each dim.

A tensor is an array of blocks, cut where ops or ranks cut it. What ops make of a block is said once, for all values of
its variables; sums and maxima over a dim are sums and maxima over a variable.
"""
