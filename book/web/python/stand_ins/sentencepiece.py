"""Pieces of text, by the tokenizer that the page has for its own model."""

from pathlib import Path

from page import Tokenizer
from pyodide.ffi import to_js


class SentencePieceProcessor:
    def __init__(self, model_file=None, model_proto=None):
        self.tokenizer = Tokenizer.new(to_js(model_proto or Path(model_file).read_bytes()))

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

    def piece_to_id(self, piece):
        return self.tokenizer.ids.get(piece) or self.unk_id()

    def is_byte(self, token):
        return self.tokenizer.pieces[token].kind == 6
