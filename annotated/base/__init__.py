"""What all others may import: files and their errors, and what a corpus is."""
