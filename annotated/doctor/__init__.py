"""Is yours right? What is asked of any encoder-decoder Transformer."""
