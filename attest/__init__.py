"""Evidence: who computed what, where, in which boot state; makers and verifiers."""
