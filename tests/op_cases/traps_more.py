"""Further pitfalls from public bug reports: containers, graphs in graphs, attention, and what two runtimes see apart."""
import ml_dtypes
import numpy as np
from onnx import TensorProto as T
from onnx import helper

F = np.float32
HAND = {"by": "hand"}


def i64(*values):
    return np.array(values, np.int64)


def f32(*values):
    return np.array(values, F)


def info(name, dtype=T.FLOAT, shape=None):
    return helper.make_tensor_value_info(name, dtype, shape)


def shapes(add):
    three = [np.ones((2, 1), F), np.zeros(3, F), np.array(1, F)]
    for op, y in (("Min", 0), ("Max", 1), ("Sum", 2), ("Mean", 2 / 3)):
        add.add(f"trap_{op}_of_three_broadcasts", op, three, expected=np.full((2, 3), y, F), **HAND)
    add.add("trap_mean_broadcasts", "Mean", three[:2], expected=np.full((2, 3), 0.5, F), **HAND)
    x = np.zeros((2, 3, 4), F)
    add.add("trap_shape_bounds_are_clamped", "Shape", [x], {"start": -10, "end": 2}, expected=i64(2, 3), **HAND)
    add.add("trap_split_unevenly", "Split", [np.arange(7).astype(F)], {"num_outputs": 3}, outputs=3, version=18,
            expected=[f32(0, 1, 2), f32(3, 4, 5), f32(6)], **HAND)
    add.add("trap_split_of_nothing", "Split", [f32(1, 2), i64(2, 0)], outputs=2, expected=[f32(1, 2), np.zeros(0, F)],
            constants=[1], **HAND)
    column = np.arange(3).reshape(3, 1).astype(F)
    add.add("trap_expand_keeps_the_larger", "Expand", [column, i64(1)], expected=column, **HAND)
    add.add("trap_expand_both_ways", "Expand", [column, i64(2, 1, 4)], expected=np.broadcast_to(column, (2, 3, 4)).copy(), **HAND)
    add.add("trap_tile_zero_times", "Tile", [column, i64(0, 2)], expected=np.zeros((0, 2), F), **HAND)
    add.add("trap_where_of_scalars", "Where", [np.array(True), f32(1, 2), np.array(0, F)], expected=f32(1, 2), **HAND)
    cube = np.arange(8).reshape(2, 2, 2).astype(F)
    want = cube.copy()
    want[0, 0] = [100, 101]
    add.add("trap_scatter_nd_of_a_row", "ScatterND", [cube, i64([0, 0]), f32([100, 101])], {"reduction": "max"}, version=18,
            expected=want, **HAND)
    add.add("trap_scatter_nd_from_the_end", "ScatterND", [np.zeros(3, F), i64([-1]), f32(7)], expected=f32(0, 0, 7), **HAND)
    add.add("trap_scatter_elements_repeats", "ScatterElements", [np.ones((1, 3), F), i64([-1, -1]), f32([2, 3])],
            {"axis": 1, "reduction": "mul"}, version=18, expected=f32([1, 1, 6]), **HAND)


def numbers(add):
    inf, nan = np.inf, np.nan
    add.add("trap_quantize_then_the_zero_point", "QuantizeLinear", [f32(0.25, 0.75, 1.25, 1.75), np.array(0.5, F),
                                                                    np.array(128, np.uint8)],
            expected=np.array([128, 130, 130, 132], np.uint8), **HAND)
    add.add("trap_dynamic_quantize", "DynamicQuantizeLinear", [f32(-127, 128, 0.5)], outputs=3,
            expected=[np.array([0, 255, 127], np.uint8), np.array(1, F), np.array(127, np.uint8)], **HAND)
    add.add("trap_quantize_int4_odd", "QuantizeLinear", [f32(-8, 7, -1), np.array(1, F), np.array(0, ml_dtypes.int4)], version=21,
            expected=np.array([-8, 7, -1], ml_dtypes.int4), **HAND)
    add.add("trap_dequantize_uint4_odd", "DequantizeLinear", [np.array([15, 0, 9], ml_dtypes.uint4), np.array(1, F)], version=21,
            constants=[0], expected=f32(15, 0, 9), **HAND)
    x = f32(inf, 465, 464, 500, nan, -0.0)
    for saturate, y in ((1, [448, 448, 448, 448, nan, -0.0]), (0, [nan, nan, 448, nan, nan, -0.0])):
        add.add(f"trap_cast_e4m3fn_saturate_{saturate}", "Cast", [x], {"to": T.FLOAT8E4M3FN, "saturate": saturate}, version=19,
                expected=np.array(y, ml_dtypes.float8_e4m3fn), **HAND)
    add.add("trap_top_k_smallest_nan_last", "TopK", [f32(1, nan, 3, -inf), i64(4)], {"largest": 0}, outputs=2,
            expected=[f32(-inf, 1, 3, nan), i64(3, 0, 2, 1)], **HAND)
    add.add("trap_top_k_of_none", "TopK", [f32(1, 2), i64(0)], outputs=2, expected=[np.zeros(0, F), np.zeros(0, np.int64)], **HAND)
    add.add("trap_noop_ReduceLogSum", "ReduceLogSum", [f32(-2, 3), np.zeros(0, np.int64)], {"noop_with_empty_axes": 1}, version=18,
            constants=[1], expected=f32(nan, np.log(3)), **HAND)
    add.add("trap_empty_ReduceMax_int8", "ReduceMax", [np.zeros((2, 0), np.int8), i64(1)], {"keepdims": 0}, version=20, constants=[1],
            expected=np.full(2, -128, np.int8), **HAND)
    add.add("trap_softmax_11_default_axis", "Softmax", [np.zeros((1, 2, 2), F)], version=11, expected=np.full((1, 2, 2), 0.25, F),
            **HAND)
    add.add("trap_pow_of_a_negative", "Pow", [f32(-8, -8), f32(3, 1 / 3)], expected=f32(-512, nan), **HAND)
    add.add("trap_pow_wraps", "Pow", [np.array([3], np.int32), np.array([21], np.int32)], expected=np.array([1870418611], np.int32),
            **HAND)
    for op, y, at in (("ReduceMax", nan, 1), ("ReduceMin", nan, 1)):
        add.add(f"trap_{op}_of_nan", op, [f32(1, nan, 3), i64(0)], {"keepdims": 0}, version=20, constants=[1],
                expected=np.array(y, F), by="numpy", note="ONNX Runtime skips NaN; NumPy and the element-wise operators do not")
        add.add(f"trap_{'ArgMax' if op == 'ReduceMax' else 'ArgMin'}_of_nan", "ArgMax" if op == "ReduceMax" else "ArgMin",
                [f32(1, nan, 3)], {"keepdims": 0}, expected=np.array(at, np.int64), by="numpy",
                note="ONNX Runtime skips NaN; NumPy takes the first")
    add.add("trap_div_by_minus_one", "Mod", [np.array([-2**31, 5], np.int32), np.array([-1, -1], np.int32)],
            expected=np.array([0, 0], np.int32), **HAND)
    add.add("trap_log_sum_exp_large", "ReduceLogSumExp", [f32(250, 248, 255, 251), i64(0)], {"keepdims": 0}, version=18, constants=[1],
            expected=np.array(255.02563, F), **HAND)


def windows(add):
    # A sum over a window is no average times the taps: whole numbers stay whole.
    x = (np.arange(64) % 7).astype(F)
    padded = np.pad(x, 4)
    add.add("trap_lp_pool_sums_whole_numbers", "LpPool", [x.reshape(1, 1, 64)], {"kernel_shape": [9], "pads": [4, 4], "p": 1},
            version=22, expected=np.array([padded[i:i + 9].sum() for i in range(64)], F).reshape(1, 1, 64), rtol=0, atol=0,
            by="numpy")


def boxes(add):
    add.add("trap_nms_strict_score", "NonMaxSuppression",
            [np.array([[[0, 0, 1, 1], [2, 2, 3, 3]]], F),
             np.array([[[0.5, 0.6]]], F), np.array([5], np.int64), f32(0.5), f32(0.5)], expected=np.array([[0, 0, 1]], np.int64), **HAND)
    # Two boxes of which the second covers the first's half: IoU 0.5, which is not above the threshold.
    add.add("trap_nms_threshold_is_kept", "NonMaxSuppression",
            [np.array([[[0, 0, 2, 1], [0, 0, 1, 1]]], F), np.array([[[0.9, 0.8]]], F), np.array([5], np.int64), f32(0.5)],
            expected=np.array([[0, 0, 0], [0, 0, 1]], np.int64), **HAND)
    add.add("trap_nms_flipped_corners", "NonMaxSuppression",
            [np.array([[[2, 1, 0, 0], [0, 0, 2, 1]]], F), np.array([[[0.9, 0.8]]], F), np.array([5], np.int64), f32(0.5)],
            expected=np.array([[0, 0, 0]], np.int64), **HAND)


def attention(add):
    zeros = np.zeros((1, 1, 3, 1), F)
    values = f32(1, 2, 4).reshape(1, 1, 3, 1)
    add.add("trap_attention_causal_one_query", "Attention", [zeros[:, :, :1], zeros, values], {"is_causal": 1}, version=24,
            expected=f32(1).reshape(1, 1, 1, 1), **HAND)
    # A past of two: the one query sees all three.
    past = np.zeros((1, 1, 2, 1), F)
    add.add("trap_attention_causal_past", "Attention",
            [zeros[:, :, :1], zeros[:, :, :1], values[:, :, 2:], None, past, values[:, :, :2]], {"is_causal": 1}, version=24,
            outputs=["y", "k", "v"], expected=[f32(7 / 3).reshape(1, 1, 1, 1), zeros, values], **HAND)
    add.add("trap_attention_present_without_past", "Attention", [zeros[:, :, :1], zeros, values], version=24,
            outputs=["y", "k", "v"], expected=[f32(7 / 3).reshape(1, 1, 1, 1), zeros, values], **HAND)
    x = f32(1, 2, 3, 4).reshape(1, 1, 1, 4)
    for name, attributes, half, y in (("halves", {}, 2, [-3, -4, 1, 2]), ("interleaved", {"interleaved": 1}, 2, [-2, 1, -4, 3]),
                                      ("partial", {"rotary_embedding_dim": 2}, 1, [-2, 1, 3, 4])):
        add.add(f"trap_rotary_{name}", "RotaryEmbedding", [x, np.zeros((1, 1, half), F), np.ones((1, 1, half), F)], attributes,
                expected=f32(*y).reshape(1, 1, 1, 4), **HAND)
    add.add("trap_rotary_3d_heads", "RotaryEmbedding", [np.arange(1, 9).reshape(1, 1, 8).astype(F), np.zeros((1, 1, 2), F),
                                                        np.ones((1, 1, 2), F)], {"num_heads": 2},
            expected=f32(-3, -4, 1, 2, -7, -8, 5, 6).reshape(1, 1, 8), **HAND)


def graphs(add):
    """Loops, branches and containers."""
    body = helper.make_graph([helper.make_node("Add", ["s", "w"], ["next"]), helper.make_node("Identity", ["next"], ["row"]),
                              helper.make_node("Less", ["i", "one"], ["on"])], "body",
                             [info("i", T.INT64, []), info("go", T.BOOL, []), info("s")],
                             [info("on", T.BOOL, []), info("next"), info("row")])
    loop = helper.make_node("Loop", ["m", "", "x"], ["y", "rows"], body=body)
    one = helper.make_node("Constant", [], ["one"], value_int=1)
    for trips, y, rows in ((0, [0, 0], np.zeros((0, 2))), (5, [2, 4], [[1, 2], [2, 4]])):
        add.add_graph(f"trap_loop_of_{trips}", [one, loop], {"m": np.array(trips, np.int64), "x": f32(0, 0), "w": f32(1, 2)},
                      ["y", "rows"], expected=[f32(*y), np.array(rows, F)], **HAND)
    # The innermost graph reads a name of the outermost.
    inner = helper.make_graph([helper.make_node("Mul", ["x", "w"], ["deep"])], "inner", [], [info("deep")])
    other = helper.make_graph([helper.make_node("Identity", ["w"], ["plain"])], "other", [], [info("plain")])
    outer = helper.make_graph([helper.make_node("If", ["c"], ["z"], then_branch=inner, else_branch=other)], "outer", [], [info("z")])
    # A branch whose output is a value of the graph around it.
    direct = helper.make_graph([], "direct", [], [info("x")])
    branch = helper.make_node("If", ["c"], ["y"], then_branch=outer, else_branch=direct)
    for c, y in ((True, [3, 8]), (False, [1, 2])):
        add.add_graph(f"trap_if_reads_outside_{c}", [branch], {"c": np.array(c), "x": f32(1, 2), "w": f32(3, 4)}, ["y"],
                      expected=f32(*y), **HAND)
    split = helper.make_node("SplitToSequence", ["x", "two"], ["parts"], axis=0)
    two = helper.make_node("Constant", [], ["two"], value_int=2)
    last = helper.make_node("Constant", [], ["last"], value_int=-1)
    add.add_graph("trap_split_to_sequence_rest", [two, last, split, helper.make_node("SequenceAt", ["parts", "last"], ["y"]),
                                                  helper.make_node("SequenceLength", ["parts"], ["n"])],
                  {"x": np.arange(5).astype(F)}, ["y", "n"], expected=[f32(4), np.array(3, np.int64)], **HAND)
    add.add_graph("trap_concat_from_sequence_new_last_axis",
                  [helper.make_node("SequenceConstruct", ["x", "x"], ["s"]),
                   helper.make_node("ConcatFromSequence", ["s"], ["y"], axis=-1, new_axis=1)], {"x": f32(1, 2, 3)}, ["y"],
                  expected=f32([1, 1], [2, 2], [3, 3]), **HAND)
    kind = helper.make_optional_type_proto(helper.make_tensor_type_proto(T.FLOAT, None))
    add.add_graph("trap_empty_optional", [helper.make_node("Optional", [], ["o"], type=kind),
                                          helper.make_node("OptionalHasElement", ["o"], ["y"]),
                                          helper.make_node("Identity", ["x"], ["z"])], {"x": f32(1)}, ["y", "z"], version=18,
                  expected=[np.array(False), f32(1)], **HAND)


def recurrent(add):
    # Past a row's end Y is zero, and Y_h is its last valid step: X 1, W and R 1, Tanh.
    x = np.ones((3, 2, 1), F)
    h1 = np.tanh(1.0)
    h2 = np.tanh(1 + h1)
    h3 = np.tanh(1 + h2)
    add.add("trap_rnn_lengths", "RNN", [x, np.ones((1, 1, 1), F), np.ones((1, 1, 1), F), None, np.array([3, 1], np.int32)],
            {"hidden_size": 1}, outputs=2, version=14,
            expected=[f32(h1, h1, h2, 0, h3, 0).reshape(3, 1, 2, 1), f32(h3, h1).reshape(1, 2, 1)], **HAND)
    add.add("trap_rnn_relu_clip", "RNN", [np.full((2, 1, 1), 10, F), np.ones((1, 1, 1), F), np.ones((1, 1, 1), F)],
            {"hidden_size": 1, "activations": ["Relu"], "clip": 3.0}, outputs=2, version=14,
            expected=[f32(3, 3).reshape(2, 1, 1, 1), f32(3).reshape(1, 1, 1)], **HAND)


def add_cases(add):
    shapes(add)
    numbers(add)
    windows(add)
    boxes(add)
    attention(add)
    graphs(add)
    recurrent(add)
