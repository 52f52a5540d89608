from dataclasses import dataclass, field


@dataclass
class EncoderConfig:
    depth: int = 6
    ff_mult: int = 4
    dropout: float = 0.1


@dataclass
class DecoderConfig:
    depth: int = 6
    ff_mult: int = 4
    dropout: float = 0.1


@dataclass
class TransformerConfig:
    vocab_size: int = 32_000  # joint BPE, source and target share it
    dim: int = 512
    heads: int = 8
    dim_head: int = 64
    max_seq_len: int = 1024
    pad_id: int = 3
    tie_embeddings: bool = True
    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    decoder: DecoderConfig = field(default_factory=DecoderConfig)
