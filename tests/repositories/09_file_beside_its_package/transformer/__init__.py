from .decoder import Decoder
from .encoder import Encoder
from .vocab import Vocab
