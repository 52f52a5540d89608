from .config import TransformerConfig
from .model import Transformer

__all__ = ["Transformer", "TransformerConfig"]
