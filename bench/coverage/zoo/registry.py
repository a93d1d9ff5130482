"""The table of architectures, and the graph builder that they share with the benchmark models."""
import pathlib
import sys

SIDE_BY_SIDE = pathlib.Path(__file__).resolve().parents[2] / "side_by_side"
sys.path.insert(0, str(SIDE_BY_SIDE))

from modelgen.builder import Graph  # noqa: E402,F401

ARCHITECTURES = {}


def architecture(name, *data_sets, variants=(), **options):
    """Registers a builder: it takes the name and gives a Graph, or a ModelProto.

    data_sets  functions of a random generator that give {input: array}; run one after the other through one model
    variants   precisions that variants.py makes of it
    options    `tolerance` (rtol, atol as a part of the output's size), `what`: a line for meta.json
    """

    def register(build):
        ARCHITECTURES[name] = {"build": build, "data_sets": data_sets, "variants": variants, **options}
        return build

    return register
