from .configuration_mt import MTConfig
from .modeling_mt import MTForConditionalGeneration, MTModel
