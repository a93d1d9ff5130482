"""Small models of many architectures with random weights, as exporters write them: `ARCHITECTURES` maps names to entries."""

# Importing a module registers its models, in this order.
from . import text, decoders, control, vision, audio, tabular  # isort: skip
from .registry import ARCHITECTURES

__all__ = ["ARCHITECTURES", "text", "decoders", "control", "vision", "audio", "tabular"]
