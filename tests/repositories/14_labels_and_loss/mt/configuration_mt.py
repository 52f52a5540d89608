""" MT model configuration"""
import json


class MTConfig:
    model_type = "mt"

    def __init__(
        self,
        vocab_size=50265,
        max_position_embeddings=1024,
        encoder_layers=6,
        decoder_layers=6,
        attention_heads=8,
        ffn_dim=2048,
        d_model=512,
        dropout=0.1,
        init_std=0.02,
        pad_token_id=1,
        bos_token_id=0,
        eos_token_id=2,
        decoder_start_token_id=2,
        **kwargs,
    ):
        self.vocab_size = vocab_size
        self.max_position_embeddings = max_position_embeddings
        self.encoder_layers = encoder_layers
        self.decoder_layers = decoder_layers
        self.attention_heads = attention_heads
        self.ffn_dim = ffn_dim
        self.d_model = d_model
        self.dropout = dropout
        self.init_std = init_std
        self.pad_token_id = pad_token_id
        self.bos_token_id = bos_token_id
        self.eos_token_id = eos_token_id
        self.decoder_start_token_id = decoder_start_token_id
        for key, value in kwargs.items():
            setattr(self, key, value)

    @classmethod
    def from_json_file(cls, path):
        with open(path, "r", encoding="utf-8") as reader:
            return cls(**json.load(reader))
