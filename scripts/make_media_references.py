#!/usr/bin/env python3
"""Makes tests/data/media: sounds and a picture, and what transformers, librosa and Pillow make of them.

    pip install numpy==2.4.6 transformers==5.24.0 soxr==1.1.0 soundfile pillow
    make_media_references.py

transformers' features are its NumPy ones (no torch installed), the rates are changed by python-soxr, "HQ", as
librosa.load does.
"""
import pathlib

import numpy
import soundfile
import soxr
from PIL import Image
from transformers import WhisperFeatureExtractor
from transformers.audio_utils import mel_filter_bank, spectrogram, window_function

DEST = pathlib.Path(__file__).resolve().parent.parent / "tests" / "data" / "media"


def chirp(rate, seconds):
    """A rising tone over some noise, then silence: what log-mel features are touchy about."""
    t = numpy.arange(int(rate * seconds)) / rate
    noise = numpy.random.default_rng(7).standard_normal(t.size) * 0.01
    sound = 0.5 * numpy.sin(2 * numpy.pi * (200 * t + 1500 * t * t)) + noise
    return numpy.where(t < seconds * 0.8, sound, 0).astype(numpy.float32)


def save(name, values, dtype=numpy.float32):
    numpy.save(DEST / name, numpy.ascontiguousarray(values).astype(dtype))


def main():
    DEST.mkdir(parents=True, exist_ok=True)
    soundfile.write(DEST / "chirp.wav", chirp(16000, 1.5), 16000, subtype="PCM_16")
    sound, _ = soundfile.read(DEST / "chirp.wav", dtype="float32")

    for mels, seconds in ((80, 2), (128, 1)):
        extract = WhisperFeatureExtractor(feature_size=mels, chunk_length=seconds)
        save(f"log_mel_{mels}.npy", extract(sound, sampling_rate=16000, return_tensors="np")["input_features"])
    save("mel_filters.npy", mel_filter_bank(201, 80, 0.0, 8000.0, 16000, norm="slaney", mel_scale="slaney").T)
    # A length with factors 2, 3 and 5, and an odd prime one.
    for length, hop in ((360, 200), (37, 500)):
        save(f"stft_{length}.npy",
             spectrogram(sound[:4000], window_function(length, "hann"), length, hop, power=None), numpy.complex64)

    stereo = numpy.stack([chirp(44100, 0.25), chirp(44100, 0.25)[::-1]], axis=1)
    soundfile.write(DEST / "stereo.flac", stereo, 44100, subtype="PCM_16")
    soundfile.write(DEST / "stereo.ogg", stereo, 44100)
    decoded, _ = soundfile.read(DEST / "stereo.flac", dtype="float32")
    save("stereo_16k.npy", soxr.resample(decoded.mean(axis=1), 44100, 16000, quality="HQ"))
    save("chirp_22050.npy", soxr.resample(sound[:4000], 16000, 22050, quality="HQ"))

    # A picture with edges, ramps and noise; made smaller, larger, and one of each.
    y, x = numpy.mgrid[0:37, 0:53]
    noise = numpy.random.default_rng(8).integers(0, 256, (37, 53))
    picture = numpy.stack([x * 4, (x // 8 + y // 8) % 2 * 255, noise], axis=2).astype(numpy.uint8)
    Image.fromarray(picture).save(DEST / "picture.png")
    for height, width in ((16, 20), (60, 90), (80, 11)):
        resized = Image.fromarray(picture).resize((width, height), Image.Resampling.BILINEAR)
        save(f"picture_{height}x{width}.npy", resized, numpy.uint8)


if __name__ == "__main__":
    main()
