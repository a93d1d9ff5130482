"""Control flow written out for one set of inputs, so that what happens inside is nodes of the main graph.

The branch that an If takes stands in its place, the trips of a Loop or Scan one after the other.  Which branch and how many
trips ONNX Runtime is asked.  Loops of more than MOST_TRIPS, of none, and control flow in sequences stay as they are.
"""
import numpy as np
import onnx
from onnx import helper, numpy_helper

from .both import node_label, run_ort

MOST_TRIPS = 24
DEEPEST = 6


def body_of(node, attribute):
    return next((a.g for a in node.attribute if a.name == attribute), None)


def attribute(node, name, otherwise=None):
    found = next((a for a in node.attribute if a.name == name), None)
    return otherwise if found is None else helper.get_attribute_value(found)


def renamed(nodes, names):
    """Copies of nodes that read and write other names, inside their own subgraphs too."""
    copies = []
    for node in nodes:
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        rename(copy, names)
        copies.append(copy)
    return copies


def rename(node, names):
    for field in (node.input, node.output):
        for i, name in enumerate(field):
            field[i] = names.get(name, name)
    for a in node.attribute:
        for graph in [a.g] if a.HasField("g") else a.graphs:
            own = {v.name for v in graph.input} | {t.name for t in graph.initializer}
            own.update(o for n in graph.node for o in n.output)
            outer = {k: v for k, v in names.items() if k not in own}
            for inner in graph.node:
                rename(inner, outer)
            for output in graph.output:
                output.name = outer.get(output.name, output.name)


class Unfolded:
    """The nodes that a control-flow node becomes."""

    def __init__(self, node, label, graph, opset):
        self.node, self.label, self.graph, self.opset = node, label, graph, opset
        self.nodes = []
        self.serial = 0

    def name(self, what):
        self.serial += 1
        return f"{self.label}/{what}_{self.serial}"

    def constant(self, array):
        name = self.name("constant")
        self.graph.initializer.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def emit(self, op, inputs, output=None, **attributes):
        output = output or self.name(op)
        self.nodes.append(helper.make_node(op, inputs, [output], name=self.name(f"unfolded_{op}"), **attributes))
        return output

    def inline(self, body, place, given):
        """The body's nodes with `given` for its inputs; the names of its outputs."""
        names = dict(given)
        for tensor in body.initializer:
            names[tensor.name] = f"{place}/{tensor.name}"
            copy = onnx.TensorProto()
            copy.CopyFrom(tensor)
            copy.name = names[tensor.name]
            self.graph.initializer.append(copy)
        for node in body.node:
            names.update({o: f"{place}/{o}" for o in node.output if o})
        copies = renamed(body.node, names)
        for position, copy in enumerate(copies):
            copy.name = f"{place}/{node_label(copy, position)}"
        self.nodes += copies
        return [names.get(o.name, o.name) for o in body.output]

    def unsqueeze(self, value, axis):
        if self.opset >= 13:
            return self.emit("Unsqueeze", [value, self.constant(np.array([axis], np.int64))])
        return self.emit("Unsqueeze", [value], axes=[axis])

    def finish(self, results):
        for output, value in zip(self.node.output, results):
            if output:
                self.emit("Identity", [value], output)

    def stack(self, rows, axis=0):
        return self.emit("Concat", [self.unsqueeze(row, axis) for row in rows], axis=axis)


def unfold_if(new, condition):
    branch = "then_branch" if condition else "else_branch"
    new.finish(new.inline(body_of(new.node, branch), f"{new.label}.{branch}", {}))


def unfold_loop(new, trips):
    body = body_of(new.node, "body")
    carried = list(new.node.input[2:])
    rows = [[] for _ in body.output[1 + len(carried):]]
    condition = new.node.input[1] if len(new.node.input) > 1 and new.node.input[1] else new.constant(np.array(True))
    for trip in range(trips):
        given = dict(zip([i.name for i in body.input], [new.constant(np.array(trip, np.int64)), condition, *carried]))
        condition, *results = new.inline(body, f"{new.label}.body[{trip}]", given)
        carried, scanned = results[:len(carried)], results[len(carried):]
        for row, value in zip(rows, scanned):
            row.append(value)
    new.finish(carried + [new.stack(row) for row in rows])


def unfold_scan(new, trips):
    body, node = body_of(new.node, "body"), new.node
    scans = attribute(node, "num_scan_inputs")
    states = list(node.input[:len(node.input) - scans])
    inputs = list(node.input[len(node.input) - scans:])
    outputs = len(body.output) - len(states)
    in_axes = attribute(node, "scan_input_axes", [0] * scans)
    back = attribute(node, "scan_input_directions", [0] * scans)
    out_axes = attribute(node, "scan_output_axes", [0] * outputs)
    out_back = attribute(node, "scan_output_directions", [0] * outputs)
    rows = [[] for _ in range(outputs)]
    for trip in range(trips):
        elements = []
        for value, axis, backward in zip(inputs, in_axes, back):
            at = new.constant(np.array(trips - 1 - trip if backward else trip, np.int64))
            elements.append(new.emit("Gather", [value, at], axis=axis))
        given = dict(zip([i.name for i in body.input], states + elements))
        results = new.inline(body, f"{new.label}.body[{trip}]", given)
        states = results[:len(states)]
        for row, value in zip(rows, results[len(states):]):
            row.append(value)
    stacked = [new.stack(row[::-1] if backward else row, axis) for row, axis, backward in zip(rows, out_axes, out_back)]
    new.finish(states + stacked)


def counted(node):
    """A Loop that also gives the number of its trips, and that output's name."""
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    body = body_of(copy, "body")
    carried = len(node.input) - 2
    mark = f"{node.output[0]}/trips"
    count = onnx.ValueInfoProto()
    count.CopyFrom(helper.make_tensor_value_info(f"{mark}/in", onnx.TensorProto.INT64, []))
    body.input.append(count)
    body.node.append(helper.make_node("Constant", [], [f"{mark}/one"],
                                      value=numpy_helper.from_array(np.array(1, np.int64))))
    body.node.append(helper.make_node("Add", [f"{mark}/in", f"{mark}/one"], [f"{mark}/out"]))
    outputs = list(body.output)
    del body.output[:]
    added = helper.make_tensor_value_info(f"{mark}/out", onnx.TensorProto.INT64, [])
    body.output.extend([*outputs[:1 + carried], added, *outputs[1 + carried:]])
    names = list(copy.output)
    names += [""] * (carried - len(names))
    del copy.output[:]
    copy.output.extend([*names[:carried], mark, *names[carried:]])
    copy.input.append(f"{mark}/zero")
    return copy, mark


def decisions(model, feeds):
    """What each control-flow node of the main graph does: {its first output: condition or trips}."""
    probe = onnx.ModelProto()
    probe.CopyFrom(model)
    nodes, asked = [], {}
    for node in model.graph.node:
        first = next((o for o in node.output if o), None)
        if node.domain in ("", "ai.onnx") and first:
            if node.op_type == "If":
                asked[first] = node.input[0]
            elif node.op_type == "Loop" and node.output[0]:
                node, mark = counted(node)
                zero = numpy_helper.from_array(np.array(0, np.int64), f"{mark}/zero")
                probe.graph.initializer.append(zero)
                asked[first] = mark
            elif node.op_type == "Scan" and attribute(node, "num_scan_inputs"):
                scans = attribute(node, "num_scan_inputs")
                if len(node.input) > scans and next(o.version for o in model.opset_import if o.domain in ("", "ai.onnx")) < 9:
                    continue
                asked[first] = node.input[len(node.input) - scans]
        nodes.append(node)
    del probe.graph.node[:]
    probe.graph.node.extend(nodes)
    have = {o.name for o in probe.graph.output}
    inputs = {i.name for i in probe.graph.input}
    constants = {t.name: numpy_helper.to_array(t) for t in probe.graph.initializer}
    probe.graph.output.extend(onnx.ValueInfoProto(name=n) for n in dict.fromkeys(asked.values())
                              if n not in have and n not in inputs and n not in constants)
    names = [n for n in dict.fromkeys(asked.values()) if n not in inputs and n not in constants]
    values = {**constants, **feeds, **(run_ort(probe, feeds, names) if names else {})}
    return {first: values[name] for first, name in asked.items() if name in values}


def unfold(model, feeds, only=None):
    """A copy without control flow where that can be had; `only`: labels of nodes, with what is inside of them."""
    model_opset = next(o.version for o in model.opset_import if o.domain in ("", "ai.onnx"))
    for _ in range(DEEPEST):
        decided = decisions(model, feeds)
        changed = False
        out = onnx.ModelProto()
        out.CopyFrom(model)
        del out.graph.node[:]
        for position, node in enumerate(model.graph.node):
            first = next((o for o in node.output if o), None)
            label = node_label(node, position)
            value = decided.get(first)
            if value is None or (only and not any(label.startswith(o) for o in only)):
                out.graph.node.append(node)
                continue
            new = Unfolded(node, label, out.graph, model_opset)
            if node.op_type == "If":
                unfold_if(new, bool(np.asarray(value).reshape(-1)[0]))
            else:
                scan = node.op_type == "Scan"
                axis = attribute(node, "scan_input_axes", [0])[0] if scan else 0
                trips = int(np.asarray(value).shape[axis]) if scan else int(np.asarray(value).reshape(-1)[0])
                if not 0 < trips <= MOST_TRIPS:
                    out.graph.node.append(node)
                    continue
                (unfold_scan if scan else unfold_loop)(new, trips)
            out.graph.node.extend(new.nodes)
            changed = True
        model = out
        if not changed:
            return model
    return model
