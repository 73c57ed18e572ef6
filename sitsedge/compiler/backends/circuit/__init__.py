"""Integer graph → R1CS circuit file, with the cheapest encoding of every node that forces each wire to one value."""
