"""Proven bounds of an integer model, and properties decided with them: CROWN, splitting, attack, MILP."""
