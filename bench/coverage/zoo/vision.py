"""Pictures in: classes, boxes, depths, other pictures."""
import numpy as np
from modelgen import vision as shapes
from modelgen.layers import conv, eager_attention, gelu, group_norm, layer_norm_op, linear, merge_heads, silu, split_heads

from .registry import Graph, architecture


def pictures(batch, height, width, channels=3, name="pixel_values"):
    return lambda rng: {name: rng.random((batch, channels, height, width)).astype(np.float32) * 2 - 1}


QUANTIZED = ("f16", "qdq_u8s8", "qdq_pc", "qoperator")


@architecture("resnet_small", pictures(1, 32, 32), pictures(2, 40, 24), variants=QUANTIZED, what="basic blocks, batch norms folded")
def resnet(name):
    g = Graph(name, opset=17)
    x = g.input("pixel_values", ["batch_size", 3, "height", "width"])
    x = g.op("Relu", conv(g, x, 3, 16, 7, "stem", 2, gain=1.4))
    x = g.op("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    n = 16
    for i, (wide, stride) in enumerate(((16, 1), (32, 2))):
        with g.scope(f"layer{i}"):
            y = g.op("Relu", conv(g, x, n, wide, 3, "conv1", stride, gain=1.2))
            y = conv(g, y, wide, wide, 3, "conv2", gain=0.8)
            short = x if n == wide and stride == 1 else conv(g, x, n, wide, 1, "downsample", stride)
            x, n = g.op("Relu", g.op("Add", y, short)), wide
    x = g.op("Flatten", g.op("GlobalAveragePool", x), axis=1)
    weight, bias = g.normal("fc.weight", (10, n), 0.3), g.normal("fc.bias", (10,), 0.1)
    g.output(g.op("Gemm", x, weight, bias, transB=1), "logits", ["batch_size", 10])
    return g


@architecture("mobilenet_small", pictures(1, 32, 32), pictures(2, 48, 32), variants=QUANTIZED,
              what="inverted residuals, depthwise, squeeze and excitation, HardSwish")
def mobilenet(name):
    g = Graph(name, opset=14)
    x = g.op("HardSwish", conv(g, g.input("pixel_values", ["batch_size", 3, "height", "width"]), 3, 16, 3, "stem", 2, gain=1.4))
    n = 16
    for i, (wide, kernel, stride) in enumerate(((16, 3, 1), (24, 5, 2), (24, 3, 1))):
        with g.scope(f"blocks.{i}"):
            y = g.op("HardSwish", conv(g, x, n, 3 * n, 1, "expand", gain=1.4))
            y = g.op("HardSwish", conv(g, y, 3 * n, 3 * n, kernel, "depthwise", stride, groups=3 * n, gain=1.4))
            s = g.op("GlobalAveragePool", y)
            s = g.op("Relu", conv(g, s, 3 * n, 8, 1, "squeeze"))
            s = g.op("HardSigmoid", conv(g, s, 8, 3 * n, 1, "excite"), alpha=1 / 6, beta=0.5)
            y = conv(g, g.op("Mul", y, s), 3 * n, wide, 1, "project")
            x, n = (g.op("Add", x, y) if n == wide and stride == 1 else y), wide
    x = g.op("ReduceMean", x, axes=[2, 3], keepdims=0)
    g.output(linear(g, x, n, 10, "classifier"), "logits", ["batch_size", 10])
    return g


@architecture("vit_small", pictures(1, 32, 32), pictures(3, 32, 32), variants=("f16", "bf16", "dynamic_u8", "qdq_u8s8", "q4"),
              what="patches, a class token")
def vit(name):
    return shapes.vit_small(name, hidden=32, layers=2, heads=4, patch=8, side=32)


@architecture("swin_small", pictures(1, 64, 64), pictures(2, 64, 64), what="shifted windows, merging of patches")
def swin(name):
    return shapes.swin_tiny(name, width=32, depths=(2, 2), window=4, side=64)


def diffusion(batch, side, length):
    def make(rng):
        return {"sample": rng.standard_normal((batch, 4, side, side)).astype(np.float32),
                "timestep": rng.integers(1, 999, batch),
                "encoder_hidden_states": rng.standard_normal((batch, length, 24)).astype(np.float32)}

    return make


@architecture("diffusion_unet", diffusion(1, 8, 5), diffusion(2, 16, 7), variants=("f16",),
              what="denoising: time embedding, cross attention, skips")
def unet(name, wide=32, context=24, heads=4):
    g = Graph(name, opset=14)
    x = g.input("sample", ["batch_size", 4, "height", "width"])
    step = g.input("timestep", ["batch_size"], np.int64)
    states = g.input("encoder_hidden_states", ["batch_size", "sequence_length", context])
    freq = np.exp(-np.log(10000) * np.arange(8) / 8).astype(np.float32)[None]
    angles = g.op("Mul", g.cast(g.unsqueeze(step, 1), np.float32), g.constant(freq, np.float32))
    time = silu(g, linear(g, g.op("Concat", g.op("Cos", angles), g.op("Sin", angles), axis=-1), 16, wide, "time"))

    def block(x, n, m, path):
        with g.scope(path):
            y = conv(g, silu(g, group_norm(g, x, n, "norm1", groups=8)), n, m, 3, "conv1")
            y = g.op("Add", y, g.unsqueeze(linear(g, time, wide, m, "time_proj"), 2, 3))
            y = conv(g, silu(g, group_norm(g, y, m, "norm2", groups=8)), m, m, 3, "conv2")
            return g.op("Add", y, x if n == m else conv(g, x, n, m, 1, "shortcut"))

    def attend(x, n, path):
        with g.scope(path):
            y = group_norm(g, x, n, "norm", groups=8, eps=1e-6)
            y = g.transpose(g.reshape(y, [0, 0, -1]), 0, 2, 1)
            for kind, source, size in (("self", None, n), ("cross", states, context)):
                inner = layer_norm_op(g, y, n, f"{kind}_norm", 1e-5)
                q = split_heads(g, linear(g, inner, n, n, f"{kind}_q", False), heads, n // heads)
                k, v = (split_heads(g, linear(g, source or inner, size, n, f"{kind}_{p}", False), heads, n // heads) for p in "kv")
                y = g.op("Add", y, linear(g, merge_heads(g, eager_attention(g, q, k, v, n // heads), heads, n // heads), n, n, f"{kind}_out"))
            return g.op("Add", x, g.op("Reshape", g.transpose(y, 0, 2, 1), g.op("Shape", x)))

    first = block(conv(g, x, 4, wide, 3, "conv_in"), wide, wide, "down.0")
    y = block(conv(g, first, wide, wide, 3, "down.conv", 2), wide, 2 * wide, "down.1")
    y = block(attend(y, 2 * wide, "mid.attention"), 2 * wide, wide, "mid")
    y = g.op("Resize", y, "", g.constant([1, 1, 2, 2], np.float32), mode="nearest", nearest_mode="floor",
             coordinate_transformation_mode="asymmetric")
    y = block(g.op("Concat", conv(g, y, wide, wide, 3, "up.conv"), first, axis=1), 2 * wide, wide, "up.0")
    y = silu(g, group_norm(g, y, wide, "norm_out", groups=8))
    g.output(conv(g, y, wide, 4, 3, "conv_out"), "noise", ["batch_size", 4, "height", "width"])
    return g


@architecture("depth_resize", pictures(1, 32, 48), pictures(2, 40, 24), variants=("f16",),
              what="a pyramid, resized by scales computed from shapes")
def depth(name):
    g = Graph(name, opset=17)
    image = g.input("pixel_values", ["batch_size", 3, "height", "width"])
    a = g.op("Relu", conv(g, image, 3, 16, 3, "down1", 2, gain=1.4))
    b = g.op("Relu", conv(g, a, 16, 24, 3, "down2", 2, gain=1.4))

    def resize(x, like, mode, coordinates):
        size = g.op("Slice", g.op("Shape", like), g.iv(2), g.iv(4), g.iv(0))
        start = g.op("Slice", g.op("Shape", x), g.iv(0), g.iv(2), g.iv(0))
        return g.op("Resize", x, "", "", g.op("Concat", start, size, axis=0), mode=mode,
                    coordinate_transformation_mode=coordinates, **({"nearest_mode": "floor"} if mode == "nearest" else {}))

    x = g.op("Add", resize(conv(g, b, 24, 16, 1, "up2"), a, "linear", "align_corners"), a)
    x = resize(g.op("Relu", conv(g, x, 16, 8, 3, "up1")), image, "linear", "half_pixel")
    x = g.op("Add", x, resize(conv(g, a, 16, 8, 1, "skip"), image, "nearest", "asymmetric"))
    g.output(g.op("Relu", conv(g, x, 8, 1, 3, "head")), "depth", ["batch_size", 1, "height", "width"])
    return g


@architecture("super_resolution", pictures(1, 12, 16), pictures(2, 9, 7), variants=("f16",), what="PRelu, pixel shuffle, cubic skip")
def super_resolution(name):
    g = Graph(name, opset=18)
    image = g.input("pixel_values", ["batch_size", 3, "height", "width"])
    x = conv(g, image, 3, 16, 3, "first", gain=1.4)
    for i in range(3):
        y = g.op("PRelu", conv(g, x, 16, 16, 3, f"body.{i}", gain=1.2), g.param(f"slope.{i}", np.full((16, 1, 1), 0.2, np.float32)))
        x = g.op("Add", x, y)
    x = g.op("DepthToSpace", conv(g, x, 16, 27, 3, "last"), blocksize=3, mode="CRD")
    wide = g.op("Resize", image, "", g.constant([1, 1, 3, 3], np.float32), mode="cubic", cubic_coeff_a=-0.75,
                coordinate_transformation_mode="half_pixel")
    g.output(g.op("Clip", g.op("Add", x, wide), g.f(-1), g.f(1)), "image", ["batch_size", 3, "high", "wide"])
    return g


@architecture("style_generator", pictures(1, 16, 16), pictures(2, 20, 12), what="instance norms, reflected borders, ConvTranspose")
def style(name):
    g = Graph(name, opset=17)
    x = g.input("pixel_values", ["batch_size", 3, "height", "width"])

    def normed(x, channels, path):
        with g.scope(path):
            return g.op("InstanceNormalization", x, g.normal("scale", (channels,), 0.1, 1.0), g.normal("bias", (channels,), 0.1))

    x = g.op("Pad", x, g.iv(0, 0, 2, 2, 0, 0, 2, 2), mode="reflect")
    x = g.op("Relu", normed(conv(g, x, 3, 8, 5, "first", pad=0), 8, "norm1"))
    x = g.op("Relu", normed(conv(g, x, 8, 16, 3, "down", 2), 16, "norm2"))
    x = g.op("Add", x, normed(conv(g, x, 16, 16, 3, "block"), 16, "norm3"))
    weight = g.normal("up.weight", (16, 8, 3, 3), 0.15)
    x = g.op("ConvTranspose", x, weight, strides=[2, 2], pads=[1] * 4, output_padding=[1, 1], kernel_shape=[3, 3])
    x = g.op("LeakyRelu", normed(x, 8, "norm4"), alpha=0.1)
    g.output(g.op("Tanh", conv(g, x, 8, 3, 3, "last")), "image", ["batch_size", 3, "high", "wide"])
    return g


@architecture("vae_decoder", pictures(1, 4, 4, 4, "latent"), pictures(2, 6, 4, 4, "latent"), variants=("f16",),
              what="group norms, attention over pixels, nearest upsampling")
def vae(name, wide=32):
    g = Graph(name, opset=14)
    x = conv(g, g.input("latent", ["batch_size", 4, "height", "width"]), 4, wide, 3, "conv_in", gain=1.4)
    y = group_norm(g, x, wide, "attention/norm", groups=8, eps=1e-6)
    flat = g.transpose(g.reshape(y, [0, 0, -1]), 0, 2, 1)
    q, k, v = (split_heads(g, linear(g, flat, wide, wide, n), 1, wide) for n in ("q", "k", "v"))
    y = linear(g, merge_heads(g, eager_attention(g, q, k, v, wide), 1, wide), wide, wide, "out")
    x = g.op("Add", x, g.op("Reshape", g.transpose(y, 0, 2, 1), g.op("Shape", x)))
    x = g.op("Resize", x, "", g.constant([1, 1, 2, 2], np.float32), mode="nearest", nearest_mode="floor",
             coordinate_transformation_mode="asymmetric")
    y = conv(g, silu(g, group_norm(g, x, wide, "norm1", groups=8)), wide, wide, 3, "conv1")
    x = g.op("Add", x, y)
    g.output(conv(g, silu(g, group_norm(g, x, wide, "norm_out", groups=8)), wide, 3, 3, "conv_out"), "image",
             ["batch_size", 3, "high", "wide"])
    return g


@architecture("convnext_small", pictures(1, 32, 32), pictures(2, 64, 32), what="depthwise 7x7, channels last norms, layer scale")
def convnext(name, wide=16):
    g = Graph(name, opset=17)
    x = g.op("Conv", g.input("pixel_values", ["batch_size", 3, "height", "width"]), g.normal("stem.weight", (wide, 3, 4, 4), 0.15),
             g.normal("stem.bias", (wide,), 0.1), strides=[4, 4], kernel_shape=[4, 4])
    for i in range(2):
        with g.scope(f"blocks.{i}"):
            y = g.transpose(conv(g, x, wide, wide, 7, "depthwise", groups=wide), 0, 2, 3, 1)
            y = gelu(g, linear(g, layer_norm_op(g, y, wide, "norm"), wide, 4 * wide, "up"))
            y = g.op("Mul", linear(g, y, 4 * wide, wide, "down"), g.normal("gamma", (wide,), 0.2, 0.5))
            x = g.op("Add", x, g.transpose(y, 0, 3, 1, 2))
    y = layer_norm_op(g, g.op("ReduceMean", x, axes=[-2, -1], keepdims=0), wide, "norm")
    g.output(linear(g, y, wide, 10, "head"), "logits", ["batch_size", 10])
    return g


@architecture("boxes_from_grid", pictures(1, 64, 64), pictures(2, 64, 32), what="a detector's head: grids from shapes, boxes decoded")
def detector(name, classes=5):
    g = Graph(name, opset=17)
    x = g.input("pixel_values", ["batch_size", 3, "height", "width"])
    levels = []
    for i, (n, wide, stride) in enumerate(((3, 16, 8), (16, 24, 2))):
        x = silu(g, conv(g, x, n, wide, 3, f"stage{i}.a", 2, gain=1.5))
        for j in range(stride.bit_length() - 2):
            x = silu(g, conv(g, x, wide, wide, 3, f"stage{i}.b{j}", 2, gain=1.5))
        levels.append((x, wide, 8 * 2**i))
    found = []
    for i, (x, wide, stride) in enumerate(levels):
        with g.scope(f"head.{i}"):
            y = conv(g, x, wide, 4 + classes, 1, "out")
            rows, columns = (g.cast(g.op("Range", g.i(0), g.dim(x, axis), g.i(1)), np.float32) for axis in (2, 3))
            area = [g.dim(x, 2), g.dim(x, 3)]
            grid = [g.expand(g.unsqueeze(columns, 0), area), g.expand(g.unsqueeze(rows, 1), area)]
            grid = g.op("Concat", *(g.unsqueeze(z, 0, 1) for z in grid), axis=1)
            shift, size, scores = g.split(y, [2, 2, classes], 1)
            middle = g.op("Mul", g.op("Add", g.op("Sigmoid", shift), grid), g.f(stride))
            parts = [middle, g.op("Mul", g.op("Exp", g.op("Clip", size, g.f(-3), g.f(3))), g.f(stride)), g.op("Sigmoid", scores)]
            found.append(g.transpose(g.reshape(g.op("Concat", *parts, axis=1), [0, 4 + classes, -1]), 0, 2, 1))
    g.output(g.op("Concat", *found, axis=1), "found", ["batch_size", "places", 4 + classes])
    return g
