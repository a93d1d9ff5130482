"""Sound in, sound out."""
import numpy as np
from modelgen import audio as shapes
from modelgen.layers import conv1d, gelu, layer_norm_op, linear

from .registry import Graph, architecture


def features(batch, *shape, name="input_features"):
    return lambda rng: {name: rng.standard_normal((batch, *shape)).astype(np.float32)}


@architecture("whisper_encoder", features(1, 16, 40), features(2, 16, 40), variants=("f16", "dynamic_u8", "q4"),
              what="two convolutions, then a transformer")
def whisper(name):
    return shapes.whisper_encoder(name, hidden=32, layers=2, heads=4, mels=16, frames=40)


@architecture("conformer", features(1, 40, 16), features(2, 33, 16), what="gated depthwise convolutions between attention")
def conformer(name):
    return shapes.conformer(name, hidden=32, layers=1, heads=4, mels=16, kernel=7)


def waves(batch, samples):
    return lambda rng: {"input_values": rng.standard_normal((batch, samples)).astype(np.float32) * 0.4}


@architecture("wav2vec_ctc", waves(1, 400), waves(2, 640), variants=("f16", "dynamic_u8"), what="strided convolutions of samples, CTC")
def wav2vec(name, wide=24):
    g = Graph(name, opset=17)
    x = g.unsqueeze(g.input("input_values", ["batch_size", "samples"]), 1)
    n = 1
    for i, (kernel, stride) in enumerate(((10, 5), (3, 2), (3, 2))):
        x = conv1d(g, x, n, wide, kernel, f"conv.{i}", stride=stride, gain=1.5)
        if i == 0:
            ones, zeros = g.constant(np.ones(wide), np.float32), g.constant(np.zeros(wide), np.float32)
            x = g.op("InstanceNormalization", x, ones, zeros)
        x, n = gelu(g, x), wide
    x = layer_norm_op(g, g.transpose(x, 0, 2, 1), wide, "norm", 1e-5)
    place = gelu(g, conv1d(g, g.transpose(x, 0, 2, 1), wide, wide, 7, "pos_conv", pad=3, groups=4))
    x = g.op("Add", x, g.transpose(place, 0, 2, 1))
    x = g.op("Add", x, linear(g, gelu(g, linear(g, x, wide, 48, "up")), 48, wide, "down"))
    g.output(linear(g, x, wide, 20, "lm_head"), "logits", ["batch_size", "frames", 20])
    return g


def codes(batch, length):
    return lambda rng: {"audio_codes": rng.integers(0, 32, (batch, 3, length))}


@architecture("codec_decoder", codes(1, 10), codes(2, 17), what="codebooks summed, transposed convolutions, snakes")
def codec(name, wide=16):
    g = Graph(name, opset=17)
    ids = g.input("audio_codes", ["batch_size", 3, "frames"], np.int64)
    parts = []
    for i in range(3):
        part = g.op("Gather", ids, g.i(i), axis=1)
        parts.append(g.op("Gather", g.normal(f"codebook.{i}", (32, wide), 0.5), part, axis=0))
    x = g.transpose(g.op("Add", g.op("Add", parts[0], parts[1]), parts[2]), 0, 2, 1)
    for i, stride in enumerate((2, 4)):
        with g.scope(f"block.{i}"):
            alpha = g.normal("alpha", (1, wide, 1), 0.1, 1.0)
            wave = g.op("Pow", g.op("Sin", g.op("Mul", alpha, x)), g.f(2))
            x = g.op("Add", x, g.op("Mul", g.op("Reciprocal", alpha), wave))
            weight = g.normal("weight", (wide, wide, 2 * stride), 0.2)
            x = g.op("ConvTranspose", x, weight, kernel_shape=[2 * stride], strides=[stride], pads=[stride // 2] * 2)
    g.output(g.op("Tanh", conv1d(g, x, wide, 1, 7, "last", pad=3)), "audio", ["batch_size", 1, "samples"])
    return g


@architecture("mel_frontend", waves(1, 256), waves(2, 400), what="STFT, mel bands, logarithms")
def mel(name, size=64, hop=32, bands=12):
    g = Graph(name, opset=17)
    x = g.input("input_values", ["batch_size", "samples"])
    window = g.param("window", np.hanning(size).astype(np.float32))
    y = g.op("STFT", x, g.i(hop), window, g.i(size), onesided=1)
    power = g.op("ReduceSum", g.op("Mul", y, y), g.iv(-1), keepdims=0)
    filters = np.zeros((size // 2 + 1, bands), np.float32)
    for band in range(bands):
        filters[2 * band:2 * band + 5, band] = [0.25, 0.5, 1, 0.5, 0.25]
    y = g.op("MatMul", power, g.param("filters", filters))
    y = g.op("Log", g.op("Max", y, g.f(1e-5)))
    g.output(g.op("Div", g.op("Sub", y, g.op("ReduceMean", y, axes=[1], keepdims=1)), g.f(4)), "mel", ["batch_size", "frames", bands])
    return g
