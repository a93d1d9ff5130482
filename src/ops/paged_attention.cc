// com.microsoft PagedAttention: packed tokens of several sequences, whose keys and values lie in pages of a common
// cache, [pages, page size, heads, d]: floats or codes with scales; of a latent layout the values are the first
// channels of the keys' rows.
#include "ops/attention_parts.h"
#include "ops/cache_coding.h"
#include "ops/registry.h"
#include "ops/support.h"

namespace transmuter::ops {
namespace {

using ir::Builder;
using ir::CompareDirection;
using ir::Value;

enum Input : size_t {
  kQuery,
  kKey,
  kValue,
  kKeyCache,
  kValueCache,
  kStarts,  // [sequences + 1]
  kPast,
  kTable,  // [sequences, pages of one]
  kCos,
  kSin,
  kSlots,
  kSink,
  kQueryNorm,
  kKeyNorm,
  kKeyScale,
  kValueScale,
  kMetadata
};

// How a cache is coded: by its dtype, and where a byte holds two channels by the attribute that names what they are.
CacheCoding read_coding(OpContext& op, const char* attribute, const char* granularity, size_t cache, size_t scale) {
  const std::string given = op.attribute_string(attribute, ""), kind = op.attribute_string(granularity, "NONE");
  const DType dtype = op.dtype(cache);
  CacheCoding coding;
  coding.dtype = op.dtype(kQuery);
  if (dtype == DType::u8) {
    op.check(given == "int4" || given == "float4e2m1", attribute,
             " of a cache of uint8 must be int4 or float4e2m1, is '", given, "'");
    coding.codes = given == "int4" ? CacheCodes::i4 : CacheCodes::f4e2m1;
  } else {
    const char* own = dtype == DType::i8         ? "int8"
                      : dtype == DType::f8e4m3fn ? "float8e4m3fn"
                      : dtype == DType::f16      ? "float16"
                      : dtype == DType::bf16     ? "bfloat16"
                                                 : "";
    op.check(given.empty() || given == own, attribute, " is ", given, ", but the cache holds ", name(dtype));
    if (dtype == DType::i8) coding.codes = CacheCodes::i8;
    if (dtype == DType::f8e4m3fn) coding.codes = CacheCodes::f8e4m3fn;
    op.check(coding.codes != CacheCodes::none || is_float(dtype), "a cache holds ", name(dtype));
  }
  op.check(kind == "NONE" || kind == "PER_TENSOR" || kind == "PER_CHANNEL", granularity, " ", kind,
           " is not one of the operator's");
  op.check((kind == "NONE") == (coding.codes == CacheCodes::none), granularity, " is ", kind, ", but the cache holds ",
           name(dtype));
  if (coding.codes == CacheCodes::none) return coding;
  Builder& b = op.build();
  const Value given_scale = b.convert(op.input(scale), DType::f32);
  coding.scale = kind == "PER_TENSOR" ? b.reshape(given_scale, {1, 1, 1, 1}) : as_rank_4(b, given_scale);
  return coding;
}

struct Heads {
  Value q, k, v;  // [1, heads, tokens, d]; v not where it lies in k's rows
};

Heads read_heads(OpContext& op, bool latent) {
  Builder& b = op.build();
  const Dim heads = op.attribute_int("num_heads"), kv_heads = op.attribute_int("kv_num_heads");
  op.check(heads.hint() > 0 && kv_heads.hint() > 0, "num_heads and kv_num_heads must be positive");
  op.check(op.rank(kQuery) == 2, "query must have rank 2, has ", op.rank(kQuery));
  const auto heads_of = [&](size_t i, Dim count) { return split_heads(b, b.expand_dims(op.input(i), {0}), count); };
  if (latent) {
    op.check(kv_heads.hint() == 1, "kv_cache_layout LATENT needs kv_num_heads 1, has ", kv_heads.hint());
    op.check(op.has_input(kKey) && !op.has_input(kValue) && !op.has_input(kValueCache),
             "kv_cache_layout LATENT has a key, and neither a value nor a value_cache");
    return {heads_of(kQuery, heads), heads_of(kKey, kv_heads), {}};
  }
  op.check(op.has_input(kValueCache), "value_cache is missing");
  if (op.has_input(kKey)) return {heads_of(kQuery, heads), heads_of(kKey, kv_heads), heads_of(kValue, kv_heads)};
  const Value all = heads_of(kQuery, heads + kv_heads * 2);
  return {b.slice_axis(all, 1, 0, heads), b.slice_axis(all, 1, heads, heads + kv_heads),
          b.slice_axis(all, 1, heads + kv_heads, heads + kv_heads * 2)};
}

// Where each of the tokens belongs: [tokens], i64.
struct Places {
  Value sequence, position, slot;  // slot: in the cache's rows; -1: none
};

Places place_tokens(OpContext& op, Dim tokens, Dim page_size) {
  Builder& b = op.build();
  const auto integers = [&](size_t i) { return b.convert(op.input(i), DType::i64); };
  const Value starts = integers(kStarts), table = integers(kTable);
  const Dim sequences = b.shape(table)[0], pages = b.shape(table)[1];
  require_eq(b.shape(starts)[0], sequences + 1, "PagedAttention: cumulative_sequence_length and block_table");
  const Dims grid{tokens, sequences};
  // The number of sequences that end at or before the token.
  const Value ends = b.broadcast_in_dim(b.slice_axis(starts, 0, 1, sequences + 1), grid, {1});
  const Value ended = b.convert(b.compare(ends, b.iota(DType::i64, grid, 0), CompareDirection::le), DType::i64);
  Places places;
  places.sequence = b.reduce(ended, ir::ReduceKind::add, {1});
  const Value first = take_checked_rows(b, starts, places.sequence);
  const Value past = take_checked_rows(b, integers(kPast), places.sequence);
  places.position = b.add(b.subtract(b.iota(DType::i64, {tokens}, 0), first), past);
  if (op.has_input(kSlots)) {
    places.slot = integers(kSlots);
    return places;
  }
  const auto number = [&](Dim dim) { return b.broadcast_in_dim(b.dim_value(dim, DType::i64), {tokens}, {}); };
  const Value page_of = b.add(b.multiply(places.sequence, number(pages)), b.divide(places.position, number(page_size)));
  const Value page = take_checked_rows(b, b.reshape(table, {sequences * pages}), page_of);
  const Value slot = b.add(b.multiply(page, number(page_size)), b.remainder(places.position, number(page_size)));
  places.slot = b.select(b.compare(page, b.like(page, 0), CompareDirection::lt), b.like(page, -1), slot);
  return places;
}

// The cache with the tokens' rows [1, heads, tokens, d] at their slots; a slot outside (-1) is left out.
Value with_rows(Builder& b, Value cache, Value rows, Value slots) {
  const Dims shape = b.shape(cache);
  ir::ScatterAttributes scatter;
  scatter.update_window_dims = {1, 2};
  scatter.inserted_window_dims = {0};
  scatter.scatter_dims_to_operand_dims = {0};
  scatter.index_vector_dim = 1;
  const Value flat = b.reshape(cache, {shape[0] * shape[1], shape[2], shape[3]});
  const Value updates = b.convert(b.squeeze(b.transpose(rows, {0, 2, 1, 3}), {0}), b.dtype(cache));
  return b.reshape(b.scatter(flat, b.expand_dims(slots, {1}), updates, std::move(scatter)), shape);
}

// All pages of all sequences, one behind the other: [1, heads, sequences * pages * page size, d].
Value pages_of(Builder& b, Value cache, Value table, const CacheCoding& coding, Dim d) {
  const Value none = b.like(table, 0);
  const Value pages = take_checked_rows(b, cache, b.maximum(table, none));  // unmapped ones are masked
  const Dims shape = b.shape(pages);
  const Value rows = b.reshape(pages, {1, shape[0] * shape[1] * shape[2], shape[3], shape[4]});
  return b.convert(coding.decode(b, b.transpose(rows, {0, 2, 1, 3}), d), coding.dtype);
}

// Which keys a token sees, [1, 1, tokens, keys]: those of its own sequence up to its own place (or its sequence's end),
// in its window and on a page that is mapped.
Value visible_keys(OpContext& op, const Places& places, Dim tokens, Dim page_size) {
  const bool causal = op.attribute_int("is_causal", 1) != 0;
  const int64_t window = op.attribute_int("local_window_size", -1);
  Builder& b = op.build();
  const auto integers = [&](size_t i) { return b.convert(op.input(i), DType::i64); };
  const Value table = integers(kTable), starts = integers(kStarts);
  const Dim sequences = b.shape(table)[0], pages = b.shape(table)[1], keys = sequences * pages * page_size;
  const Dims grid{tokens, keys}, places_of_keys{sequences, pages * page_size};
  const auto of_keys = [&](Value v) { return b.broadcast_in_dim(b.reshape(v, {keys}), grid, {1}); };
  const auto of_tokens = [&](Value v) { return b.broadcast_in_dim(v, grid, {0}); };
  const Value sequence = of_keys(b.iota(DType::i64, places_of_keys, 0));
  const Value position = of_keys(b.iota(DType::i64, places_of_keys, 1));
  Value seen = b.compare(sequence, of_tokens(places.sequence), CompareDirection::eq);
  const auto also = [&](Value condition) { seen = b.logical_and(seen, condition); };
  if (causal) {
    also(b.compare(position, of_tokens(places.position), CompareDirection::le));
  } else {
    const Value lengths = b.subtract(b.slice_axis(starts, 0, 1, sequences + 1), b.slice_axis(starts, 0, 0, sequences));
    const Value totals = b.add(lengths, integers(kPast));
    also(b.compare(position, of_keys(b.broadcast_in_dim(totals, places_of_keys, {0})), CompareDirection::lt));
  }
  if (window > 0) {
    const Value oldest = b.subtract(of_tokens(places.position), b.like(position, static_cast<double>(window)));
    also(b.compare(position, oldest, CompareDirection::gt));
  }
  const Value mapped = b.broadcast_in_dim(b.compare(table, b.like(table, 0), CompareDirection::ge),
                                          {sequences, pages, page_size}, {0, 1});
  also(of_keys(mapped));
  return b.reshape(seen, {1, 1, tokens, keys});
}

void normalise_and_rotate(OpContext& op, Heads& heads, Value position) {
  Builder& b = op.build();
  const float epsilon = op.attribute_float("qk_norm_epsilon", 1e-6F);
  if (op.has_input(kQueryNorm)) {
    op.check(op.has_input(kKeyNorm), "q_norm_weight without k_norm_weight");
    heads.q = ir::rms_norm(b, heads.q, op.input(kQueryNorm), 3, epsilon)[0];
    heads.k = ir::rms_norm(b, heads.k, op.input(kKeyNorm), 3, epsilon)[0];
  }
  const bool interleaved = op.attribute_int("rotary_interleaved", 0) != 0;
  const int64_t offset = op.attribute_int("rotary_offset", 0);
  if (op.attribute_int("do_rotary", 0) == 0) return;
  op.check(op.has_input(kCos) && op.has_input(kSin), "do_rotary needs cos_cache and sin_cache");
  op.check(offset >= 0, "rotary_offset must not be negative, is ", offset);
  const Value cos = take_checked_rows(b, op.input(kCos), position);
  const Value sin = take_checked_rows(b, op.input(kSin), position);
  const auto turned = [&](Value x) {
    if (offset == 0) return rotate(b, x, cos, sin, interleaved);
    const Dim d = b.shape(x)[3];
    require(less_equal(offset, d), "PagedAttention: rotary_offset inside of the heads");
    const Value rest = rotate(b, b.slice_axis(x, 3, offset, d), cos, sin, interleaved);
    return b.concatenate({b.slice_axis(x, 3, 0, offset), rest}, 3);
  };
  heads.q = turned(heads.q);
  heads.k = turned(heads.k);
}

void paged_attention(OpContext& op) {
  require_float(op, kQuery);
  const std::string layout = op.attribute_string("kv_cache_layout", "SEPARATE");
  const bool latent = layout == "LATENT";
  op.check(latent || layout == "SEPARATE", "kv_cache_layout ", layout, " is not one of the operator's");
  op.check(op.rank(kKeyCache) == 4, "key_cache must have rank 4, has ", op.rank(kKeyCache));
  Builder& b = op.build();
  Heads heads = read_heads(op, latent);
  op.check(latent || op.rank(kValueCache) == 4, "value_cache must have rank 4");
  const DType dtype = op.dtype(kQuery);
  const Dims shape = b.shape(heads.q);
  const Dim tokens = shape[2], page_size = op.shape(kKeyCache)[1];
  const CacheCoding k_coding = read_coding(op, "k_cache_dtype", "k_quant_type", kKeyCache, kKeyScale);
  CacheCoding v_coding;
  if (!latent) v_coding = read_coding(op, "v_cache_dtype", "v_quant_type", kValueCache, kValueScale);
  op.ignore_attributes({"v_cache_dtype", "v_quant_type"});  // of a cache that a latent layout does not have
  const int64_t width = op.attribute_int("v_head_size", 0);
  op.check(width >= 0, "v_head_size must not be negative, is ", width);
  const float scale = op.attribute_float("scale", 0.0F);
  if (width != 0 && !latent) require_eq(b.shape(heads.v)[3], width, "PagedAttention: v_head_size");
  if (width != 0 && latent) {
    require(less_equal(width, shape[3]), "PagedAttention: v_head_size at most the head's");
    op.check(scale != 0 || provably_eq(shape[3], width), "v_head_size needs the attribute scale");
  }
  const Places places = place_tokens(op, tokens, page_size);
  normalise_and_rotate(op, heads, places.position);
  op.has_input(kMetadata);  // bounds for a kernel's launch: nothing here needs them
  const Value table = b.convert(op.input(kTable), DType::i64);
  const Value key_cache = with_rows(b, op.input(kKeyCache), k_coding.encode(b, heads.k), places.slot);
  const Value keys = pages_of(b, key_cache, table, k_coding, shape[3]);
  Value value_cache, values;
  if (latent) {
    values = width == 0 ? keys : b.slice_axis(keys, 3, 0, width);
  } else {
    value_cache = with_rows(b, op.input(kValueCache), v_coding.encode(b, heads.v), places.slot);
    values = pages_of(b, value_cache, table, v_coding, b.shape(heads.v)[3]);
  }
  ir::AttentionAttributes attributes;
  attributes.scale = scale == 0 ? inverse_root(shape[3]) : Real(scale);
  attributes.softcap = op.attribute_float("softcap", 0.0F);
  ir::AttentionExtras extras;
  extras.mask = visible_keys(op, places, tokens, page_size);
  if (op.has_input(kSink)) extras.sink = b.convert(op.input(kSink), dtype);
  const Value y = ir::attention(b, heads.q, keys, values, extras, attributes)[0];
  op.output(0, b.squeeze(merge_heads(b, y), {0}));
  if (op.wants_output(1)) op.output(1, key_cache);
  if (op.wants_output(2)) {
    op.check(!latent, "kv_cache_layout LATENT has no value_cache_out");
    op.output(2, value_cache);
  }
}

}  // namespace

void register_paged_attention(Registry& r) { r.add("PagedAttention", {1}, paged_attention, kMicrosoft); }

}  // namespace transmuter::ops
