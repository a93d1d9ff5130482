"""Several models, or one model again and again: what an application does with them, the same for every runtime.

Each takes `step(model file, feeds) -> {output: array}`, the recorded arrays of the case, and gives {name: array}.
"""
import numpy as np


def silero_stream(step, meta, arrays):
    """Voice activity, 512 samples at a time, each with the last 64 of the chunk before and the state that came out."""
    audio, model = arrays["audio"].reshape(-1), meta["models"][0]
    state, context, probabilities = np.zeros((2, 1, 128), np.float32), np.zeros(64, np.float32), []
    for start in range(0, len(audio) - 511, 512):
        chunk = audio[start:start + 512]
        out = step(model, {"input": np.concatenate([context, chunk])[None].astype(np.float32), "state": state,
                           "sr": np.array(16000, np.int64)})
        state = out["stateN"]
        probabilities.append(float(out["output"].reshape(-1)[0]))
        context = chunk[-64:]
    return {"probs": np.array(probabilities, np.float32), "last_state": state}


def greedy_seq2seq(step, meta, arrays):
    """The encoder once, then the decoder token by token, the likeliest each time."""
    encoder, decoder = meta["models"]
    ids, mask = arrays["input_ids"], arrays["attention_mask"]
    hidden = next(iter(step(encoder, {"input_ids": ids, "attention_mask": mask}).values()))
    tokens = [0]
    for _ in range(10):
        out = step(decoder, {"input_ids": np.array([tokens], np.int64), "decoder_input_ids": np.array([tokens], np.int64),
                             "encoder_hidden_states": hidden, "encoder_attention_mask": mask, "attention_mask": mask})
        tokens.append(int(np.argmax(next(iter(out.values()))[0, -1])))
        if tokens[-1] == 1:
            break
    return {"tokens": np.array(tokens, np.int64)}


def sequence_for(name):
    return greedy_seq2seq if "greedy" in name else silero_stream
