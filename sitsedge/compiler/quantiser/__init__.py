"""Float graph, calibration rows and limits → integer graph: scales, shifts, weights and tables."""
