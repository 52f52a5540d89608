import transformer.Constants
import transformer.Layers
import transformer.Models
import transformer.SubLayers

__all__ = [transformer.Constants, transformer.Layers, transformer.SubLayers, transformer.Models]
