"""Operators that move elements: shapes, slices, pads, layouts."""
import itertools

import numpy as np

F = np.float32


def i64(*values):
    return np.array(values, np.int64)


def counting(*shape, dtype=F):
    return np.arange(int(np.prod(shape))).reshape(shape).astype(dtype)


def layouts(add):
    x = counting(2, 3, 4)
    for permutation in itertools.permutations(range(3)):
        add.add("Transpose_" + "".join(map(str, permutation)), "Transpose", [x], {"perm": permutation})
    add.add("Transpose_default", "Transpose", [x])
    add.add("Transpose_rank8", "Transpose", [counting(1, 2, 1, 2, 3, 1, 2, 1)], {"perm": [7, 1, 4, 0, 3, 6, 2, 5]})
    for shape in ((6, 4), (-1,), (0, -1), (2, 0, 4), (1, 24, 1), (3, -1, 2)):
        add.add("Reshape_" + "_".join(map(str, shape)), "Reshape", [x, i64(*shape)], constants=[1])
        add.add("Reshape_fed_" + "_".join(map(str, shape)), "Reshape", [x, i64(*shape)])
    add.add("Reshape_allowzero", "Reshape", [counting(0, 8, 2), i64(0, 0, 4)], {"allowzero": 1}, constants=[1])
    for axis in (-3, -1, 0, 1, 2, 3):
        add.add(f"Flatten_{axis}", "Flatten", [x], {"axis": axis})
    for axes in ((0,), (0, 2), (-1,), (1, 3)):
        add.add("Unsqueeze_" + "_".join(map(str, axes)), "Unsqueeze", [counting(2, 3), i64(*axes)], constants=[1])
    y = counting(1, 2, 1, 3)
    for axes in ((0,), (2,), (0, 2), (-2,)):
        add.add("Squeeze_" + "_".join(map(str, axes)), "Squeeze", [y, i64(*axes)], constants=[1])
    add.add("Squeeze_all", "Squeeze", [y])
    for shape in ((3, 4), (2, 3, 4), (2, 1, 4), (1,)):
        add.add("Expand_" + "_".join(map(str, shape)), "Expand", [counting(3, 1), i64(*shape)], constants=[1],
                expected=counting(3, 1) * np.ones(shape, F))
    for repeats in ((1, 2), (2, 3), (0, 1)):
        add.add("Tile_" + "_".join(map(str, repeats)), "Tile", [counting(2, 3), i64(*repeats)])
    for blocks in (2, 3):
        for mode in ("DCR", "CRD"):
            add.add(f"DepthToSpace_{mode}_{blocks}", "DepthToSpace", [counting(2, blocks * blocks * 2, 2, 3)],
                    {"blocksize": blocks, "mode": mode})
        add.add(f"SpaceToDepth_{blocks}", "SpaceToDepth", [counting(1, 2, blocks * 2, blocks * 3)], {"blocksize": blocks})
    for start, end in ((0, None), (1, None), (-2, None), (0, 2), (-10, 2), (2, 1), (1, 10)):
        add.add(f"Shape_{start}_{end}", "Shape", [x], {"start": start} | ({} if end is None else {"end": end}),
                expected=np.array(x.shape[start:end] if start >= -3 else x.shape[:end], np.int64))
    add.add("Size", "Size", [x])
    for upper in (0, 1):
        for k in (-4, -1, 0, 1, 4):
            add.add(f"Trilu_{upper}_{k}", "Trilu", [counting(2, 3, 4), np.array(k, np.int64)], {"upper": upper})
    for k in (-1, 0, 2):
        add.add(f"EyeLike_{k}", "EyeLike", [counting(3, 4)], {"k": k, "dtype": 1})
    for n in (1, 2, 3):
        add.add(f"Concat_{n}", "Concat", [counting(2, i + 1) for i in range(n)], {"axis": -1})
    add.add("Concat_empty", "Concat", [counting(0, 3), counting(2, 3), counting(0, 3)], {"axis": 0})
    for axis, sizes in ((0, (1, 1)), (1, (1, 0, 2)), (-1, (2, 2))):
        add.add(f"Split_{axis}_{len(sizes)}", "Split", [x, i64(*sizes)], {"axis": axis}, outputs=len(sizes), constants=[1])
    add.add("Split_uneven", "Split", [counting(7)], {"num_outputs": 3}, outputs=3)
    for exclusive in (0, 1):
        for reverse in (0, 1):
            for dtype in (np.float32, np.float64, np.int32, np.int64):
                add.add(f"CumSum_{exclusive}{reverse}_{np.dtype(dtype).name}", "CumSum",
                        [counting(2, 4, dtype=dtype), np.array(1, np.int64)], {"exclusive": exclusive, "reverse": reverse})
    for low, high in ((2, 3), (7, 4), (4, 9)):
        add.add(f"CenterCropPad_{low}_{high}", "CenterCropPad", [counting(4, 5), i64(low, high)], version=18)
    for values in ((0, 5, 1), (5, 0, -2), (3, 3, 1), (0, 1, 3)):
        for dtype in (np.int32, np.int64, np.float32):
            add.add("Range_" + "_".join(map(str, values)) + np.dtype(dtype).name, "Range",
                    [np.array(v, dtype) for v in values])
    add.add("ReverseSequence_time0", "ReverseSequence", [counting(4, 3), i64(1, 4, 2)], {"time_axis": 0, "batch_axis": 1})
    add.add("ReverseSequence_time1", "ReverseSequence", [counting(3, 4), i64(1, 4, 2)], {"time_axis": 1, "batch_axis": 0})


def appends(add):
    """A result that continues an input which other operators read too: kernels that copy the input first, and others."""
    from onnx import helper
    for shape in ((2, 3), (2, 1, 2, 3)):
        for axis in range(len(shape)):
            for op in ("CumSum", "Softmax", "Neg"):
                x = add.rng(f"append{shape}{axis}").integers(-4, 5, shape).astype(F)
                other = helper.make_node(op, ["x", "axis"] if op == "CumSum" else ["x"], ["c"],
                                         **({"axis": axis} if op == "Softmax" else {}))
                inputs = {"x": x} | ({"axis": np.array(axis, np.int64)} if op == "CumSum" else {})
                add.add_graph(f"Concat_behind_an_input_{len(shape)}_{axis}_{op}",
                              [other, helper.make_node("Concat", ["x", "c"], ["y"], axis=axis)], inputs, ["y"],
                              constants=["axis"] if op == "CumSum" else [])


def slices(add):
    end = np.iinfo(np.int64).max
    x = counting(5, 4)
    for starts, ends, axes, steps in (((1,), (3,), (0,), (1,)), ((-2,), (end,), (0,), (1,)), ((0,), (-1,), (1,), (2,)),
                                      ((4,), (0,), (0,), (-1,)), ((3,), (-end - 1,), (1,), (-2,)), ((2,), (2,), (0,), (1,)),
                                      ((1, 0), (4, 3), (0, 1), (2, 1)), ((10,), (20,), (0,), (1,)), ((-9,), (2,), (-1,), (1,))):
        name = "Slice_" + "_".join("m" if v == end else "l" if v == -end - 1 else str(v) for v in starts + ends + axes + steps)
        inputs = [x, i64(*starts), i64(*ends), i64(*axes), i64(*steps)]
        index = [slice(None)] * 2
        for s, e, a, p in zip(starts, ends, axes, steps):
            index[a] = slice(s, None if e in (end, -end - 1) else e, p)
        add.add(name, "Slice", inputs, constants=[1, 2, 3, 4], expected=x[tuple(index)])
        add.add(name + "_fed", "Slice", inputs, expected=x[tuple(index)])
    add.add("Slice_no_axes", "Slice", [x, i64(1, 1), i64(3, 4)], constants=[1, 2], expected=x[1:3, 1:4])
    add.add("Slice_1", "Slice", [x], {"starts": [1], "ends": [1000], "axes": [1]}, version=7, expected=x[:, 1:])
    add.add("DynamicSlice", "DynamicSlice", [x, i64(1, -3), i64(3, 1000)], version=9, expected=x[1:3, -3:])


def pads(add):
    x = counting(2, 4)
    for mode, numpy_mode in (("constant", "constant"), ("edge", "edge"), ("reflect", "reflect"), ("wrap", "wrap")):
        for low, high in (((0, 1), (0, 2)), ((1, 0), (0, 3)), ((1, 3), (1, 1))):
            name = f"Pad_{mode}_{''.join(map(str, low + high))}"
            y = np.pad(x, list(zip(low, high)), numpy_mode)
            add.add(name, "Pad", [x, i64(*low, *high)], {"mode": mode}, version=19, expected=y)
            add.add(name + "_constant_pads", "Pad", [x, i64(*low, *high)], {"mode": mode}, version=19, expected=y, constants=[1])
    add.add("Pad_value", "Pad", [x, i64(1, 0, 0, 1), np.array(-5, F)], expected=np.pad(x, ((1, 0), (0, 1)), constant_values=-5))
    add.add("Pad_axes", "Pad", [x, i64(2, 1), np.array(9, F), i64(-1)], version=18,
            expected=np.pad(x, ((0, 0), (2, 1)), constant_values=9))
    add.add("Pad_crops", "Pad", [x, i64(0, -1, 1, -1)], expected=np.pad(x[:, 1:-1], ((0, 1), (0, 0))))
    add.add("Pad_2", "Pad", [x], {"pads": [0, 1, 0, 1], "value": 3.0}, version=2 + 5,
            expected=np.pad(x, ((0, 0), (1, 1)), constant_values=3))


def add_cases(add):
    layouts(add)
    appends(add)
    slices(add)
    pads(add)
