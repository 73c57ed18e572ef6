"""Wire bytes to typed samples and back, with time one can trust."""
