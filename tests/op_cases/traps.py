"""Pitfalls from public bug reports, with answers worked out by hand."""
import numpy as np

F = np.float32
HAND = {"by": "hand"}


def i64(*values):
    return np.array(values, np.int64)


def add_cases(add):
    inf, nan, least = np.inf, np.nan, np.iinfo(np.int64).min
    x = np.arange(5).astype(F)
    add.add("trap_slice_reverse_to_start", "Slice", [x, i64(-1), i64(least), i64(0), i64(-1)], expected=x[::-1].copy(), **HAND)
    add.add("trap_slice_reverse_partly", "Slice", [x, i64(10), i64(-10), i64(0), i64(-2)], expected=np.array([4, 2, 0], F),
            **HAND)
    add.add("trap_slice_behind_the_end", "Slice", [x, i64(7), i64(9), i64(0), i64(1)], expected=np.zeros(0, F), **HAND)
    add.add("trap_slice_reverse_empty", "Slice", [np.zeros((0, 2), F), i64(-1), i64(least), i64(0), i64(-1)],
            expected=np.zeros((0, 2), F), **HAND)
    add.add("trap_reshape_copies_zero", "Reshape", [np.ones((2, 2, 3, 2), F), i64(-1, 0, 0)], expected=np.ones((4, 2, 3), F),
            **HAND)
    add.add("trap_gemm_empty_sum", "Gemm", [np.zeros((2, 0), F), np.zeros((0, 2), F), np.array([1, 2], F)], {"beta": 0.5},
            expected=np.array([[0.5, 1]] * 2, F), **HAND)
    add.add("trap_gather_of_nothing", "Gather", [np.zeros((1, 8400, 0), F), np.array(0, np.int64)],
            expected=np.zeros((8400, 0), F), **HAND)
    add.add("trap_cumsum_both", "CumSum", [np.array([1, 2, 3], F), np.array(0, np.int64)], {"exclusive": 1, "reverse": 1},
            expected=np.array([5, 3, 0], F), **HAND)
    add.add("trap_scatter_nd_repeats", "ScatterND", [np.zeros(3, F), np.array([[1], [1]], np.int64), np.array([2, 3], F)],
            {"reduction": "add"}, version=18, expected=np.array([0, 5, 0], F), **HAND)
    add.add("trap_pad_crops_and_fills", "Pad", [x, i64(-2, 1), np.array(9, F)], expected=np.array([2, 3, 4, 9], F), **HAND)
    add.add("trap_pad_edge_crops", "Pad", [np.arange(4).astype(F), i64(-1, 2)], {"mode": "edge"},
            expected=np.array([1, 2, 3, 3, 3], F), **HAND)
    add.add("trap_pad_wraps_twice", "Pad", [np.array([1, 2, 3], F), i64(4, 2)], {"mode": "wrap"}, version=19,
            expected=np.array([3, 1, 2, 3, 1, 2, 3, 1, 2], F), **HAND)
    add.add("trap_pad_reflects_twice", "Pad", [np.array([1, 2], F), i64(3, 0)], {"mode": "reflect"},
            expected=np.array([2, 1, 2, 1, 2], F), **HAND)
    add.add("trap_unique_unsorted", "Unique", [np.array([2, 1, 1, 3, 4, 3], F)], {"sorted": 0}, outputs=4,
            expected=[np.array([2, 1, 3, 4], F), i64(0, 1, 3, 4), i64(0, 1, 1, 2, 3, 2), i64(1, 2, 2, 1)], **HAND)
    pool = np.arange(1, 17).reshape(1, 1, 4, 4).astype(F)
    add.add("trap_average_pool_ceil", "AveragePool", [pool], {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1},
            expected=np.array([[[[6, 7.5], [12, 13.5]]]], F), **HAND)
    add.add("trap_max_pool_last_window", "MaxPool", [np.array([[[1, 2, 3, 4]]], F)],
            {"kernel_shape": [1], "strides": [2], "pads": [0, 1], "ceil_mode": 1}, expected=np.array([[[1, 3]]], F), **HAND)
    add.add("trap_max_pool_int8_pads", "MaxPool", [np.array([[[-5, -3, -128]]], np.int8)], {"kernel_shape": [2], "pads": [1, 1]},
            expected=np.array([[[-5, -3, -3, -128]]], np.int8), **HAND)
    add.add("trap_conv_same_lower", "Conv", [np.array([[[1, 2, 3, 4]]], F), np.ones((1, 1, 2), F)], {"auto_pad": "SAME_LOWER"},
            expected=np.array([[[1, 3, 5, 7]]], F), **HAND)
    add.add("trap_conv_same_dilated", "Conv", [np.arange(1, 8).reshape(1, 1, 7).astype(F), np.ones((1, 1, 3), F)],
            {"auto_pad": "SAME_UPPER", "strides": [2], "dilations": [2]}, expected=np.array([[[4, 9, 15, 12]]], F), **HAND)
    add.add("trap_quantize_half_to_even", "QuantizeLinear", [np.array([0.5, 1.5, -0.5, -1.5], F), np.array(1, F),
                                                             np.array(1, np.int8)], expected=np.array([1, 3, 1, -1], np.int8),
            **HAND)
    add.add("trap_integer_product_saturates", "MatMulInteger", [np.array([[255, 255]], np.uint8), np.array([[127], [127]], np.int8)],
            expected=np.array([[64770]], np.int32), **HAND)
    add.add("trap_integer_division", "Div", [np.array([-7, 7, -2**31], np.int32), np.array([2, -2, -1], np.int32)],
            expected=np.array([-3, -3, -2**31], np.int32), **HAND)
    add.add("trap_mod_signs", "Mod", [np.array([-7, 7, -7], np.int32), np.array([3, -3, -3], np.int32)],
            expected=np.array([2, -2, -1], np.int32), **HAND)
    add.add("trap_min_of_nan", "Min", [np.array([nan, 1, nan], F), np.array([10], F)], expected=np.array([nan, 1, nan], F), **HAND)
    add.add("trap_top_k_nan", "TopK", [np.array([1, nan, 3, inf, 2], F), i64(3)], outputs=2,
            expected=[np.array([nan, inf, 3], F), i64(1, 3, 2)], **HAND)
    add.add("trap_top_k_ties", "TopK", [np.array([2, 1, 2, 2], F), i64(3)], outputs=2,
            expected=[np.array([2, 2, 2], F), i64(0, 2, 3)], **HAND)
    for op, y in (("ReduceSumSquare", [4, 9]), ("ReduceL1", [2, 3]), ("ReduceL2", [2, 3]), ("ReduceLogSumExp", [-2, 3])):
        add.add(f"trap_noop_{op}", op, [np.array([-2, 3], F), np.zeros(0, np.int64)], {"noop_with_empty_axes": 1}, version=18,
                constants=[1], expected=np.array(y, F), **HAND)
    for op, y in (("ReduceSum", 0), ("ReduceProd", 1), ("ReduceMax", -inf), ("ReduceMin", inf), ("ReduceLogSumExp", -inf)):
        add.add(f"trap_empty_{op}", op, [np.zeros((2, 0, 3), F), i64(1)], {"keepdims": 0}, version=20, constants=[1],
                expected=np.full((2, 3), y, F), **HAND)
    add.add("trap_log_sum_exp_of_nothing_but_inf", "ReduceLogSumExp", [np.full((1, 3), -inf, F), i64(1)], {"keepdims": 0},
            version=18, constants=[1], expected=np.array([-inf], F), **HAND)
    add.add("trap_softmax_11_flattens", "Softmax", [np.zeros((1, 2, 2), F)], {"axis": 1}, version=11,
            expected=np.full((1, 2, 2), 0.25, F), **HAND)
    for dtype, by in ((np.uint64, 64), (np.uint8, 9)):
        add.add(f"trap_shift_by_{by}", "BitShift", [np.array([255], dtype), np.array([by], dtype)], {"direction": "RIGHT"},
                expected=np.array([0], dtype), **HAND)
    add.add("trap_pow_keeps_the_base", "Pow", [np.array([2, 3, -2], np.int32), np.array([2.9, 0.5, 3], F)],
            expected=np.array([7, 1, -8], np.int32), **HAND)
    for op in ("LayerNormalization", "RMSNormalization"):
        add.add(f"trap_{op}_f16", op, [np.array([[1000, -1000, 500, -500]], np.float16), np.ones(4, np.float16)],
                expected=np.array([[1.265, -1.265, 0.6323, -0.6323]], np.float16), atol=1e-3, **HAND)
    add.add("trap_lrn_even", "LRN", [np.array([1, 2, 3, 4], F).reshape(1, 4, 1)], {"size": 2, "alpha": 1.0, "beta": 1.0, "bias": 1.0},
            expected=np.array([1 / 3.5, 2 / 7.5, 3 / 13.5, 4 / 9], F).reshape(1, 4, 1), **HAND)
    add.add("trap_nms_without_a_count", "NonMaxSuppression", [np.zeros((1, 2, 4), F), np.zeros((1, 1, 2), F)],
            expected=np.zeros((0, 3), np.int64), **HAND)
    add.add("trap_attention_masked_row", "Attention", [np.ones((1, 1, 1, 2), F), np.ones((1, 1, 2, 2), F), np.ones((1, 1, 2, 2), F),
                                                       np.array([[False, False]])], version=24,
            expected=np.zeros((1, 1, 1, 2), F), **HAND)
    add.add("trap_attention_causal_top_left", "Attention", [np.zeros((1, 1, 2, 1), F), np.zeros((1, 1, 3, 1), F),
                                                            np.array([1, 2, 4], F).reshape(1, 1, 3, 1)], {"is_causal": 1},
            version=24, expected=np.array([1, 1.5], F).reshape(1, 1, 2, 1), **HAND)
    add.add("trap_tensor_scatter_circular", "TensorScatter", [np.zeros((1, 3, 1), F), np.array([5, 6], F).reshape(1, 2, 1), i64(2)],
            {"mode": "circular", "axis": 1}, version=24, expected=np.array([6, 0, 5], F).reshape(1, 3, 1), **HAND)
    add.add("trap_one_hot_float_index", "OneHot", [np.array([1.9], F), i64(3), np.array([0, 1], F)],
            expected=np.array([[0, 1, 0]], F), **HAND)
    add.add("trap_nonzero_of_0d", "NonZero", [np.array(3, F)], expected=np.zeros((0, 1), np.int64), **HAND)
    # The operator's text says an empty picture, with which a model would go on in silence.
    for label, file in (("garbage", np.arange(40, dtype=np.uint8)), ("empty", np.zeros(0, np.uint8))):
        add.refused(f"trap_image_{label}", "ImageDecoder", [file], version=20, must_mention=["ImageDecoder"])
    add.add("trap_lrn_wider_than_all", "LRN", [np.array([1, 2], F).reshape(1, 2, 1)], {"size": 2**40, "alpha": 2.0**40, "beta": 1.0,
                                                                                   "bias": 1.0},
            expected=np.array([1 / 6, 2 / 6], F).reshape(1, 2, 1), **HAND)
