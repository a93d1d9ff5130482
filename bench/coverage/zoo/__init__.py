"""Small models of many architectures with random weights, as exporters write them: `ARCHITECTURES` maps names to entries."""

# The registry first: it finds the builder. Importing a module registers its models, in this order.
from . import registry, text, decoders, control, vision, audio, tabular  # isort: skip
from .registry import ARCHITECTURES

__all__ = ["ARCHITECTURES", "registry", "text", "decoders", "control", "vision", "audio", "tabular"]
