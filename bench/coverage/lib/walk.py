"""Values inside of a model in the order of its nodes, in both runtimes."""
import dataclasses

import numpy as np
import onnx
from onnx import helper

from . import both
from .compare import difference


@dataclasses.dataclass
class Place:
    """A value that differs."""
    position: int
    node: onnx.NodeProto
    value: str
    difference: object
    alone: object = None  # the difference when the node gets ONNX Runtime's inputs; "" where that cannot be run
    inputs: list = dataclasses.field(default_factory=list)

    @property
    def label(self):
        domain = f"{self.node.domain}." if self.node.domain not in ("", "ai.onnx") else ""
        return f"node {both.node_label(self.node, self.position)} ({domain}{self.node.op_type})"


def holds_graph(node):
    return any(a.HasField("g") or a.graphs for a in node.attribute)


def compare_all(program, model, feeds, arguments, tolerance, skip=()):
    """(places that differ in order, number of values compared, a text where transmuter fails)."""
    exposed, values = both.with_all_outputs(model)
    names = [o.name for o in exposed.graph.output if o.name in values]
    want = both.run_ort(exposed, feeds, names)
    try:
        got = both.run_ours(program, exposed, feeds, arguments, names)
    except both.Failed as error:
        return [], 0, str(error)
    places = []
    for name in sorted(names, key=lambda n: values[n][0]):
        position, node, value = values[name]
        if name not in got or any(word in both.node_label(node, position) for word in skip):
            continue
        found = difference(want[name], got[name], *tolerance)
        if found:
            places.append(Place(position, node, value, found))
    return places, len(names), ""


def one_node(model, node, feeds):
    """The node alone, with ONNX Runtime's values for what it reads: (model, feeds), or None where they cannot be had."""
    exposed = onnx.ModelProto()
    exposed.CopyFrom(model)
    constants = {t.name: t for t in model.graph.initializer}
    given = {i.name for i in model.graph.input}
    read = [n for n in dict.fromkeys(node.input) if n]
    have = {o.name for o in exposed.graph.output}
    inner = [n for n in read if n not in constants and n not in given]
    exposed.graph.output.extend(onnx.ValueInfoProto(name=n) for n in inner if n not in have)
    values = {**{k: v for k, v in feeds.items() if k in read}, **(both.run_ort(exposed, feeds, inner) if inner else {})}
    inputs = []
    for name, value in values.items():
        if not isinstance(value, np.ndarray):
            return None
        inputs.append(helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape))
    outputs = [onnx.ValueInfoProto(name=o) for o in node.output if o]
    graph = helper.make_graph([node], "one_node", inputs, outputs, [constants[n] for n in read if n in constants])
    alone = helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version)
    # Readers other than ONNX Runtime want outputs with types.
    types = {o.name: o.type for o in both.session(alone).get_outputs()}
    for output in alone.graph.output:
        inner = types[output.name].removeprefix("tensor(").removesuffix(")")
        named = {"float": "FLOAT", "double": "DOUBLE"}.get(inner, inner.upper())
        if named not in onnx.TensorProto.DataType.keys():
            return None
        output.type.tensor_type.elem_type = onnx.TensorProto.DataType.Value(named)
    return alone, values


def differs_alone(program, model, place, feeds, arguments, tolerance):
    """Whether the node at fault differs by itself; "" where it cannot be taken out."""
    if holds_graph(place.node):
        return ""
    try:
        taken = one_node(model, place.node, feeds)
        if taken is None:
            return ""
        alone, values = taken
        want = both.run_ort(alone, values)
        got = both.run_ours(program, alone, values, arguments)
    except both.Failed as error:
        return str(error)
    except Exception as error:  # a node that ONNX Runtime takes within the graph alone
        return f"not run alone: {str(error).splitlines()[0][:100]}"
    name = place.value if place.value in want else next(iter(want))
    return difference(want[name], got[name], *tolerance)


def search_fused(program, model, feeds, arguments, tolerance, outputs):
    """Where values agree once all are given out, yet the outputs do not: what is fused in between is at fault.

    One value at a time is given out, which parts the fused steps only there.  Returns the first node whose value differs
    so, or None.
    """
    exposed, values = both.with_all_outputs(model)
    order = sorted(values, key=lambda n: values[n][0])
    want = both.run_ort(exposed, feeds, order)

    def look(name):
        probe = onnx.ModelProto()
        probe.CopyFrom(exposed)
        kept = [o for o in exposed.graph.output if o.name in outputs or o.name == name]
        del probe.graph.output[:]
        probe.graph.output.extend(kept)
        got = both.run_ours(program, probe, feeds, arguments, [name])
        return difference(want[name], got[name], *tolerance) if name in got else None

    low, high, found = 0, len(order) - 1, None
    while low <= high:  # what differs makes what follows differ
        middle = (low + high) // 2
        here = look(order[middle])
        if here:
            position, node, value = values[order[middle]]
            found, high = Place(position, node, value, here), middle - 1
        else:
            low = middle + 1
    # Not all that stands later depends on it, so from there back along what differs.
    given_as = {value: output for output, (_, _, value) in values.items()}
    while found:
        for name in (given_as[n] for n in found.node.input if n in given_as):
            here = look(name)
            if here:
                position, node, value = values[name]
                found = Place(position, node, value, here)
                break
        else:
            return found
    return None
