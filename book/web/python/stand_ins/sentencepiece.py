"""Pieces of text, by the tokenizer that the page has for its own model."""

from page import Tokenizer
from pyodide.ffi import to_js


class SentencePieceProcessor:
    def __init__(self, model_proto):
        self.tokenizer = Tokenizer.new(to_js(model_proto))

    def vocab_size(self):
        return self.tokenizer.size

    def pad_id(self):
        return self.tokenizer.padId

    def unk_id(self):
        return self.tokenizer.unkId

    def bos_id(self):
        return self.tokenizer.bosId

    def eos_id(self):
        return self.tokenizer.eosId

    def encode(self, text):
        return self.tokenizer.toIds(text).to_py()

    def decode(self, ids):
        return self.tokenizer.toText(to_js(list(ids)))

    def id_to_piece(self, token):
        return self.tokenizer.pieces[token].piece
