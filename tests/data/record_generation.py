#!/usr/bin/env python3
"""Records what Hugging Face transformers writes with the decoders of the text zoo, as references for the tests.

    record_generation.py CASES tests/data/generation        needs torch, transformers, onnxruntime, onnx

The models run in ONNX Runtime, all tokens in each step and optimizations off; everything else (what is chosen, when it
ends, beams, padding) is `transformers.generate`. Prompts are chosen so that no two tokens are nearly as good.
"""
import json
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import torch
from transformers import GenerationConfig, PretrainedConfig, PreTrainedModel
from transformers.generation import GenerationMixin
from transformers.modeling_outputs import BaseModelOutput, CausalLMOutputWithPast, Seq2SeqLMOutput

DTYPES = {1: np.float32, 2: np.uint8, 3: np.int8, 6: np.int32, 7: np.int64, 9: np.bool_, 10: np.float16}
EOS, PAD = 2, 1


def session(folder):
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    return ort.InferenceSession(str(folder / "model.onnx"), options, providers=["CPUExecutionProvider"])


def declared(folder):
    graph = onnx.load(folder / "model.onnx", load_external_data=False).graph
    weights = {w.name for w in graph.initializer}
    return [(v.name, v.type.tensor_type.elem_type,
             [d.dim_value if d.HasField("dim_value") else d.dim_param for d in v.type.tensor_type.shape.dim])
            for v in graph.input if v.name not in weights]


def examples(folder):
    """Shapes of the inputs in the first data set."""
    found = {}
    for path in sorted((folder / "test_data_set_0").glob("input_*.pb")):
        tensor = onnx.TensorProto()
        tensor.ParseFromString(path.read_bytes())
        found[tensor.name] = list(tensor.dims)
    return found


class Ort:
    """A decoder by names: what isn't tokens, masks or positions is an empty cache or a state of zeros."""

    def __init__(self, folder, embeds=None):
        self.run, self.inputs, self.shapes = session(folder), declared(folder), examples(folder)
        self.embeds = session(embeds) if embeds else None
        self.sizes = {}
        for name, _, shape in self.inputs:
            if "kv_cache_dim" in shape and name in self.shapes:
                self.sizes["kv_cache_dim"] = self.shapes[name][shape.index("kv_cache_dim")]

    def logits(self, ids, mask, encoded=None, encoder_mask=None):
        batch, length = ids.shape
        positions = np.where(mask == 0, 1, np.cumsum(mask, 1) - 1)
        feed = {}
        for name, dtype, shape in self.inputs:
            dtype = DTYPES[dtype]
            if name in ("input_ids", "decoder_input_ids"):
                value = ids
            elif name == "inputs_embeds":
                value = self.embeds.run(None, {"input_ids": ids})[0]
            elif name == "encoder_hidden_states":
                value = encoded
            elif name == "encoder_attention_mask":
                value = encoder_mask
            elif name == "attention_mask":
                value = mask
            elif name == "position_ids":
                value = positions if len(shape) == 2 else np.broadcast_to(positions, (3, batch, length))
            elif name == "mask":
                value = np.broadcast_to(np.where(np.tri(length) > 0, 0, -1e9), (batch, 1, length, length))
            elif name == "use_cache_branch":
                value = np.zeros([1])
            elif name == "num_logits_to_keep":
                value = np.zeros(shape)
            else:
                extents = list(self.shapes[name])
                extents[0] = batch
                grows = len(extents) >= 3 and "past" in name and "conv" not in name
                if grows:
                    extents[-2] = 0
                value = np.zeros(extents)
            feed[name] = np.ascontiguousarray(value, dtype=dtype)
        return self.run.run(["logits"], feed)[0].astype(np.float32)


class Encoder(torch.nn.Module):
    main_input_name = "input_ids"

    def __init__(self, run):
        super().__init__()
        self.run = run

    def forward(self, input_ids, attention_mask=None, **_):
        mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        feed = {"input_ids": input_ids.numpy(), "attention_mask": mask.numpy()}
        return BaseModelOutput(last_hidden_state=torch.from_numpy(self.run.run(None, feed)[0]))


class Wrapped(PreTrainedModel, GenerationMixin):
    config_class = PretrainedConfig
    main_input_name = "input_ids"
    _supports_cache_class = False

    def __init__(self, config, decoder, encoder=None):
        super().__init__(config)
        self.scorer, self.encoder_module = decoder, encoder and Encoder(encoder)
        self.anchor = torch.nn.Parameter(torch.zeros(1))
        self.margin = np.inf

    def can_generate(self):
        return True

    def get_encoder(self, *args, **kwargs):
        return self.encoder_module

    def prepare_inputs_for_generation(self, input_ids, **kwargs):
        kwargs.pop("past_key_values", None)
        if self.config.is_encoder_decoder:
            return {"decoder_input_ids": input_ids, **kwargs}
        return {"input_ids": input_ids, **kwargs}

    def forward(self, input_ids=None, attention_mask=None, decoder_input_ids=None, encoder_outputs=None, **_):
        if self.config.is_encoder_decoder:
            mask = np.ones(tuple(decoder_input_ids.shape), np.int64)
            encoder_mask = attention_mask.numpy()
            out = self.scorer.logits(decoder_input_ids.numpy(), mask, encoder_outputs[0].numpy(), encoder_mask)
            self.note(out)
            return Seq2SeqLMOutput(logits=torch.from_numpy(out))
        mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        out = self.scorer.logits(input_ids.numpy(), mask.numpy())
        self.note(out)
        return CausalLMOutputWithPast(logits=torch.from_numpy(out))

    def note(self, out):
        best = np.sort(out[:, -1], -1)
        self.margin = min(self.margin, float((best[:, -1] - best[:, -2]).min()))


def wrapped(cases, name, encoder, embeds, zoo):
    decoder = Ort(cases / zoo / name, cases / zoo / embeds if embeds else None)
    config = PretrainedConfig(is_encoder_decoder=bool(encoder), vocab_size=0)
    model = Wrapped(config, decoder, session(cases / zoo / encoder) if encoder else None)
    model.generation_config = GenerationConfig()
    return model


def generate(model, prompts, **settings):
    """New tokens of each answer (as the tests count them: up to the end of text), and scores of beams."""
    longest = max(map(len, prompts))
    seq2seq = model.config.is_encoder_decoder
    rows = [p + [PAD] * (longest - len(p)) if seq2seq else [PAD] * (longest - len(p)) + p for p in prompts]
    masks = [[int(i < len(p)) for i in range(longest)] if seq2seq else
             [int(i >= longest - len(p)) for i in range(longest)] for p in prompts]
    config = GenerationConfig(eos_token_id=EOS, pad_token_id=PAD, decoder_start_token_id=EOS if seq2seq else None,
                              use_cache=False, return_dict_in_generate=True, output_scores=True, **settings)
    with torch.no_grad():
        out = model.generate(torch.tensor(rows), attention_mask=torch.tensor(masks), generation_config=config)
    start = 1 if seq2seq else longest
    answers = []
    for row in out.sequences[:, start:].tolist():
        answers.append(row[: row.index(EOS) + 1] if EOS in row else row)
    scores = getattr(out, "sequences_scores", None)
    return answers, None if scores is None else [round(s, 6) for s in scores.tolist()]


def prompt(rng, length, vocabulary):
    return rng.integers(3, vocabulary, length).tolist()


FORMS = [  # decoder, encoder, model that goes on, embeddings
    *[(name,) for name in """gpt2_past gpt2_past_op13 gpt2_merged gpt2_nopast bloom_past falcon_past falcon_alibi_past
       gptbigcode_past gptj_past gptneox_past gptneox_past_op17 gptoss_past granite_past helium_past llama_past
       llama_past_op14 llama_rope_dynamic llama_rope_linear llama_rope_llama3 llama_tied_past mistral_sw_past mpt_past
       nemotron_past olmo_past opt_past phi_past phi3_past qwen2_past qwen3_past qwen3moe_past gemma_past gemma2_past
       stablelm_past arcee_past dyn_gpt2_op20 dyn_llama_op18 dyn_llama_op23 dyn_qwen2_op21 dyn_phi3_op22 dyn_neox_op19
       dyn_olmo2_op18 op23_llama op24_llama
       ortopt_llama ortopt_gpt2 ortopt_genai_llama fused_gpt2 fused_bloom rwkv4_loop
       scan_ssm genai_llama_fp32 genai_llama_fp32_sepqkv genai_llama_prunehead_fp32 genai_llama_kvint8
       genai_llama_int4_b32_sym genai_llama_int4_acc4 genai_llama_int8_b32 genai_gemma_fp32 genai_gemma3_fp32
       genai_gptoss_fp32 genai_granite_fp32
       genai_lfm2_fp32 genai_lfm2moe_fp32 genai_mistral_fp32 genai_nemotron_fp32 genai_olmo_fp32 genai_phi_fp32
       genai_phi3_fp32 genai_qwen2_fp32 genai_qwen3_fp32 genai_smollm3_fp32 q_gpt2_nbits4_b16_asym
       q_llama_nbits4_b32_asym q_qwen2_nbits8_b32_sym q_gemma3_nbits4_gather w_gpt2_f8e4m3 w_llama_int4_block_ax0
       f16_llama_keeplogits f16_gpt2_ort q4f16_llama genai_llama3rope_int4 genai_llama_emb_int4 genai_llama_shared_emb_int4
       genai_llama_int4_b16_rtnlast genai_llama_kvint4 genai_phi3_int4 genai_qwen3_int4 genai_gptoss_int4
       genai_lfm2moe_int4 q_llama_bnb_nf4 q_llama_nbits2_b32 q_llama_nbits8_gather q_llama_qdq_int4_block_sym
       qwen2_soft_past llama_soft_past qwen2_rope_yarn qwen2_past_op20 f16_qwen2_ort genai_qwen2_fp16_dml""".split()],
    *[(f"{name}_merged", f"{name}_encoder") for name in "bart blenderbot_small marian mt5 t5".split()],
    ("ortopt_t5_merged", "t5_encoder"),
    ("q_bart_merged_dyn_u8", "bart_encoder"),
    ("q_t5_merged_dyn_s8", "t5_encoder"),
    *[(f"{name}_decoder", f"{name}_encoder", f"{name}_decoder_past") for name in "bart marian mt5 t5".split()],
    ("m2m100_decoder", "m2m100_encoder"),
    ("smolvlm_decoder_model_merged", None, None, "smolvlm_embed_tokens"),
]
# Rounded to f16, or to bytes whose scale depends on the tokens of a run (all of them here, one at a time there): near
# enough for the best token but not for the order of texts. Further decoders of these kinds are left out, as one rounding
# more changes their best token; bench/side_by_side/generation.py compares with a loop that has caches.
GREEDY_ONLY = {"q4f16_llama", "f16_qwen2_ort", "genai_qwen2_fp16_dml", "q_bart_merged_dyn_u8", "q_t5_merged_dyn_s8"}
BATCHED = {"gpt2_past", "gpt2_merged", "gpt2_nopast", "llama_past", "bloom_past", "opt_past", "falcon_alibi_past",
           "qwen2_past", "mpt_past", "gemma2_past", "bart_merged", "t5_merged", "bart_decoder"}


def record(cases, name, encoder=None, past=None, embeds=None):
    zoo = "zoo_vision" if embeds else "zoo_text"
    model = wrapped(cases, name, encoder, embeds, zoo)
    out = {"zoo": zoo, "decoder": name, "sizes": model.scorer.sizes}
    out |= {key: value for key, value in (("encoder", encoder), ("past", past), ("embeds", embeds)) if value}
    # The vocabulary, and how long texts may get: some have few positions.
    vocabulary, new = None, 64
    best = None
    for seed in range(12):
        rng = np.random.default_rng(seed)
        ids = prompt(rng, 5, vocabulary or 100)
        model.margin = np.inf
        try:
            answers, _ = generate(model, [ids], max_new_tokens=new)
        except Exception as error:  # beyond its positions
            if new == 64:
                new = 48
                answers, _ = generate(model, [ids], max_new_tokens=new)
            else:
                raise error
        # A long text, and none nearly as good.
        rank = (len(answers[0]) == new, min(model.margin, 0.02), len(answers[0]))
        if best is None or rank > best[0]:
            best = (rank, ids, answers[0], model.margin)
        if rank[0] and rank[1] == 0.02:
            break
    out |= {"prompt": best[1], "greedy": best[2], "margin": round(best[3], 5), "new": new}
    if name not in GREEDY_ONLY:
        beams = dict(num_beams=3, max_new_tokens=new, num_return_sequences=2)
        out["beams"], out["scores"] = generate(model, [best[1]], **beams)
    if name in BATCHED:
        rng = np.random.default_rng(100)
        prompts = [prompt(rng, length, 100) for length in (3, 7, 5)]
        out["batch"] = {"prompts": prompts}
        out["batch"]["greedy"], _ = generate(model, prompts, max_new_tokens=16)
        out["batch"]["beams"], out["batch"]["scores"] = generate(model, prompts, num_beams=2, max_new_tokens=16)
        settings = dict(repetition_penalty=1.3, no_repeat_ngram_size=2, min_new_tokens=4, max_new_tokens=24,
                        bad_words_ids=[[7], [9, 11]], suppress_tokens=[5, 6], begin_suppress_tokens=[8],
                        exponential_decay_length_penalty=[10, 1.1], forced_eos_token_id=EOS,
                        sequence_bias=[[[12], 0.5]])
        if encoder:
            settings |= dict(encoder_repetition_penalty=1.2, encoder_no_repeat_ngram_size=2, forced_bos_token_id=20)
        out["batch"]["settings"] = settings
        out["batch"]["constrained"], _ = generate(model, prompts[1:2], **settings)
        early = dict(num_beams=4, max_new_tokens=20, early_stopping=True, length_penalty=0.5, num_return_sequences=4)
        out["batch"]["early"], out["batch"]["early_scores"] = generate(model, prompts, **early)
        never = dict(num_beams=4, max_new_tokens=20, early_stopping="never", length_penalty=1.5, num_return_sequences=4)
        out["batch"]["never"], out["batch"]["never_scores"] = generate(model, prompts, **never)
    return out


def main(cases, target):
    target.mkdir(parents=True, exist_ok=True)
    only = sys.argv[3:]  # these alone; the others stay as they are
    held = json.loads((target / "zoo.json").read_text()) if only else []
    records = [r for r in held if r["decoder"] not in only]
    for form in FORMS:
        if only and form[0] not in only:
            continue
        try:
            records.append(record(cases, *form))
            print(form[0], records[-1]["margin"], len(records[-1]["greedy"]), flush=True)
        except Exception as error:
            print(form[0], "FAILED", type(error).__name__, str(error)[:300], flush=True)
    lines = ",\n".join(json.dumps(r, separators=(",", ":")) for r in records)
    (target / "zoo.json").write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
