"""Corpora, tokenization, scores, and what is prepared once."""
