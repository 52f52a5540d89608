from collections import Counter


class Vocab:
    """words <-> numbers. The specials come first."""

    SPECIALS = ["<pad>", "<unk>", "<sos>", "<eos>"]

    def __init__(self, sentences, min_freq=2, max_size=30000):
        counts = Counter(word for sentence in sentences for word in sentence)
        words = [w for w, c in counts.most_common(max_size) if c >= min_freq]
        self.itos = self.SPECIALS + words
        self.stoi = {w: i for i, w in enumerate(self.itos)}

    def __len__(self):
        return len(self.itos)

    def __getitem__(self, word):
        return self.stoi.get(word, self.stoi["<unk>"])

    @property
    def pad_index(self):
        return self.stoi["<pad>"]

    @property
    def sos_index(self):
        return self.stoi["<sos>"]
