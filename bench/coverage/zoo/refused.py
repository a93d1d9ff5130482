"""Models that mix precisions as the operators do not allow: each must fail with one sentence that says what is wrong."""
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

RNG = np.random.default_rng(5)


def floats(*shape, dtype=np.float32):
    return RNG.standard_normal(shape).astype(dtype)


def codes(*shape, dtype=np.uint8, low=0, high=255):
    return RNG.integers(low, high, shape).astype(dtype)


def one(op, inputs, mention, domain="", opset=21, output=TensorProto.FLOAT, **attributes):
    """A node whose first input is the model's and whose others are weights; None is an input that is left out."""
    names = [f"x{i}" if v is not None else "" for i, v in enumerate(inputs)]
    x = np.asarray(inputs[0])
    weights = []
    for name, v in list(zip(names, inputs))[1:]:
        if v is not None:
            weights.append(v if isinstance(v, onnx.TensorProto) else numpy_helper.from_array(np.asarray(v), name))
            weights[-1].name = name
    node = helper.make_node(op, names, ["y"], name=f"the_{op}", domain=domain, **attributes)
    graph = helper.make_graph([node], op, [helper.make_tensor_value_info("x0", helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)],
                              [helper.make_tensor_value_info("y", output, None)], weights)
    opsets = [helper.make_opsetid("", opset)] + ([helper.make_opsetid(domain, 1)] if domain else [])
    return helper.make_model(graph, opset_imports=opsets, ir_version=10), {"x0": x}, mention


MS = "com.microsoft"
NBITS = {"K": 32, "N": 8, "bits": 4, "block_size": 32}
F16, I32 = np.float16, np.int32

# name -> (model, feeds, words that the error says)
REFUSED = {
    "half_times_float": one("MatMul", [floats(2, 4, dtype=F16), floats(4, 3)], ["MatMul", "float16"]),
    "half_plus_float": one("Add", [floats(2, 4), floats(4, dtype=F16)], ["Add", "float16"]),
    "conv_weights_half": one("Conv", [floats(1, 2, 5, 5), floats(3, 2, 3, 3, dtype=F16)], ["Conv", "float16"]),
    "gemm_bias_half": one("Gemm", [floats(2, 4), floats(4, 3), floats(3, dtype=F16)], ["Gemm"]),
    "dequantize_without_scale": one("DequantizeLinear", [codes(2, 4)], ["DequantizeLinear"]),
    "quantize_without_scale": one("QuantizeLinear", [floats(2, 4)], ["QuantizeLinear"], output=TensorProto.UINT8),
    "dequantize_zero_point_of_other_type": one("DequantizeLinear", [codes(2, 4), np.float32(0.1), np.int8(3)], ["zero point"]),
    "dequantize_zero_point_float": one("DequantizeLinear", [codes(2, 4), np.float32(0.1), np.float32(3)], ["DequantizeLinear", "float32"]),
    "quantize_zero_point_float": one("QuantizeLinear", [floats(2, 4), np.float32(0.1), np.float32(3)], ["QuantizeLinear", "float32"],
                                     output=TensorProto.UINT8),
    "dequantize_scale_integer": one("DequantizeLinear", [codes(2, 4), I32(1), np.uint8(3)], ["DequantizeLinear", "scale"]),
    "dequantize_scales_for_other_axis": one("DequantizeLinear", [codes(2, 4), floats(3), codes(3)], ["DequantizeLinear", "scales"], axis=1),
    "dequantize_blocks_do_not_fit": one("DequantizeLinear", [codes(4, 8), floats(4, 3), codes(4, 3)], ["block"], axis=1,
                                        block_size=4),
    "dequantize_zero_points_of_other_shape": one("DequantizeLinear", [codes(2, 4), floats(4), codes(2)], ["zero point"], axis=1),
    "matmul_integer_of_floats": one("MatMulInteger", [floats(2, 4), codes(4, 3)], ["MatMulInteger"], output=TensorProto.INT32),
    "matmul_integer_zero_point_of_other_type": one("MatMulInteger", [codes(2, 4), codes(4, 3), np.int8(1), np.uint8(1)],
                                                   ["zero point"], output=TensorProto.INT32),
    "conv_integer_zero_point_of_other_type": one("ConvInteger", [codes(1, 2, 5, 5), codes(3, 2, 3, 3), np.int8(1)],
                                                 ["zero point"], output=TensorProto.INT32),
    "qlinear_matmul_zero_point_of_other_type": one(
        "QLinearMatMul", [codes(2, 4), np.float32(0.1), np.int8(1), codes(4, 3), np.float32(0.1), np.uint8(1),
                          np.float32(0.2), np.uint8(1)], ["zero point"], output=TensorProto.UINT8),
    "qlinear_matmul_without_scale": one(
        "QLinearMatMul", [codes(2, 4), None, np.uint8(1), codes(4, 3), np.float32(0.1), np.uint8(1), np.float32(0.2),
                          np.uint8(1)], ["QLinearMatMul", "input 1"], output=TensorProto.UINT8),
    "qlinear_conv_scales_do_not_fit": one(
        "QLinearConv", [codes(1, 2, 5, 5), np.float32(0.1), np.uint8(1), codes(3, 2, 3, 3), floats(2), codes(2),
                        np.float32(0.2), np.uint8(1)], ["QLinearConv", "scales"], output=TensorProto.UINT8),
    "qlinear_conv_bias_float": one(
        "QLinearConv", [codes(1, 2, 5, 5), np.float32(0.1), np.uint8(1), codes(3, 2, 3, 3), np.float32(0.1), np.uint8(1),
                        np.float32(0.2), np.uint8(1), floats(3)], ["QLinearConv", "bias"], output=TensorProto.UINT8),
    "dynamic_quantize_half": one("DynamicQuantizeLinear", [floats(2, 4, dtype=F16)], ["DynamicQuantizeLinear"],
                                 output=TensorProto.UINT8),
    "nbits_without_scales": one("MatMulNBits", [floats(2, 32), codes(8, 1, 16)], ["MatMulNBits", "scales"], MS, **NBITS),
    "nbits_too_few_scales": one("MatMulNBits", [floats(2, 32), codes(8, 1, 16), floats(7)], ["MatMulNBits", "scales"], MS, **NBITS),
    "nbits_scales_of_other_type": one("MatMulNBits", [floats(2, 32), codes(8, 1, 16), codes(8)], ["MatMulNBits", "scales"], MS,
                                      **NBITS),
    "nbits_zero_points_of_other_type": one("MatMulNBits", [floats(2, 32), codes(8, 1, 16), floats(8), codes(8, dtype=I32)],
                                           ["MatMulNBits", "zero points"], MS, **NBITS),
    "nbits_weights_too_short": one("MatMulNBits", [floats(2, 32), codes(8, 1, 15), floats(8)], ["MatMulNBits"], MS, **NBITS),
    "nbits_three_bits": one("MatMulNBits", [floats(2, 32), codes(8, 1, 12), floats(8)], ["MatMulNBits", "bits"], MS,
                            **{**NBITS, "bits": 3}),
    "nbits_weights_are_floats": one("MatMulNBits", [floats(2, 32), floats(8, 1, 16), floats(8)], ["MatMulNBits"], MS, **NBITS),
    "bnb4_too_few_scales": one("MatMulBnb4", [floats(2, 32), codes(128), floats(3)], ["MatMulBnb4", "scales"], MS, K=32, N=8,
                               block_size=16, quant_type=1),
    "bnb4_unknown_table": one("MatMulBnb4", [floats(2, 32), codes(128), floats(16)], ["quant_type"], MS, K=32, N=8,
                              block_size=16, quant_type=7),
    "layer_norm_scale_integer": one("LayerNormalization", [floats(2, 8), codes(8, dtype=I32)], ["LayerNormalization"]),
}
