"""Back ends: each takes an integer graph and knows nothing of floats."""
