"""Plays recorded sensor files through a real OPC UA server in a process of its own."""
