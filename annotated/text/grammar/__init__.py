"""The embedded corpus: English-German sentence pairs from a synchronous grammar."""
