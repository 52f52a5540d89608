"""Is yours right? What is asked of any Transformer, an encoder-decoder or a decoder alone."""
