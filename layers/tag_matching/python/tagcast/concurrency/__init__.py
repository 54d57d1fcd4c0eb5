"""Work side by side (one failure stops nothing else, or everything), and rows that many write at once."""
