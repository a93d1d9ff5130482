#include "ops/registry.h"

namespace transmuter::ops {

// One a file, defined there.
void register_activation(Registry&);
void register_arithmetic(Registry&);
void register_attention(Registry&);
void register_batch_norm(Registry&);
void register_bitwise(Registry&);
void register_cast(Registry&);
void register_causal_conv(Registry&);
void register_col2im(Registry&);
void register_compare(Registry&);
void register_concat(Registry&);
void register_constant(Registry&);
void register_contrib_activation(Registry&);
void register_contrib_attention(Registry&);
void register_contrib_bias(Registry&);
void register_contrib_decode(Registry&);
void register_contrib_diffusion(Registry&);
void register_contrib_host(Registry&);
void register_contrib_moves(Registry&);
void register_contrib_norm(Registry&);
void register_contrib_pool(Registry&);
void register_contrib_products(Registry&);
void register_contrib_signal(Registry&);
void register_control(Registry&);
void register_conv(Registry&);
void register_data_dependent(Registry&);
void register_decoder_attention(Registry&);
void register_deform_conv(Registry&);
void register_dropout(Registry&);
void register_einsum(Registry&);
void register_elementwise(Registry&);
void register_expand(Registry&);
void register_flex_attention(Registry&);
void register_fused(Registry&);
void register_gated(Registry&);
void register_gather(Registry&);
void register_grid_sample(Registry&);
void register_group_query(Registry&);
void register_image_decoder(Registry&);
void register_integer_product(Registry&);
void register_legacy(Registry&);
void register_linear_algebra(Registry&);
void register_linear_attention(Registry&);
void register_longformer(Registry&);
void register_loss(Registry&);
void register_matmul(Registry&);
void register_ml_features(Registry&);
void register_ml_linear(Registry&);
void register_ml_svm(Registry&);
void register_ml_tables(Registry&);
void register_ml_trees(Registry&);
void register_moe(Registry&);
void register_nbits(Registry&);
void register_norm(Registry&);
void register_optimizers(Registry&);
void register_order(Registry&);
void register_ordered(Registry&);
void register_packed_attention(Registry&);
void register_pad(Registry&);
void register_paged_attention(Registry&);
void register_pool(Registry&);
void register_pool_positions(Registry&);
void register_qlinear(Registry&);
void register_quantize(Registry&);
void register_quantized_lstm(Registry&);
void register_quantized_product(Registry&);
void register_quantized_table(Registry&);
void register_random(Registry&);
void register_reduce(Registry&);
void register_resize(Registry&);
void register_reverse_sequence(Registry&);
void register_rnn(Registry&);
void register_roi(Registry&);
void register_rotary(Registry&);
void register_scatter(Registry&);
void register_select(Registry&);
void register_sequence(Registry&);
void register_sequence_host(Registry&);
void register_shape(Registry&);
void register_signal(Registry&);
void register_slice(Registry&);
void register_softmax(Registry&);
void register_space(Registry&);
void register_strings(Registry&);
void register_tensor_scatter(Registry&);
void register_tfidf(Registry&);
void register_variadic(Registry&);

void Registry::add(const char* name, std::initializer_list<int64_t> versions, Lower lower, const char* domain,
                   const char* notes) {
  Operator& op = operators_[{domain, name}];
  op.domain = domain;
  op.name = name;
  op.versions = versions;
  op.lower = lower;
  op.notes = notes;
}

void Registry::add_host(const char* name, std::initializer_list<int64_t> versions, HostRun host, const char* domain) {
  Operator& op = operators_[{domain, name}];
  op.domain = domain;
  op.name = name;
  op.versions = versions;
  op.host = host;
}

const Operator* Registry::find(std::string_view domain, std::string_view name) const {
  const auto at = operators_.find({std::string(domain), std::string(name)});
  return at == operators_.end() ? nullptr : &at->second;
}

const Registry& registry() {
  static const Registry* const kRegistry = [] {
    auto* r = new Registry;
    register_activation(*r);
    register_arithmetic(*r);
    register_attention(*r);
    register_batch_norm(*r);
    register_bitwise(*r);
    register_cast(*r);
    register_causal_conv(*r);
    register_col2im(*r);
    register_compare(*r);
    register_concat(*r);
    register_constant(*r);
    register_contrib_activation(*r);
    register_contrib_attention(*r);
    register_contrib_bias(*r);
    register_contrib_decode(*r);
    register_contrib_diffusion(*r);
    register_contrib_host(*r);
    register_contrib_moves(*r);
    register_contrib_norm(*r);
    register_contrib_pool(*r);
    register_contrib_products(*r);
    register_contrib_signal(*r);
    register_control(*r);
    register_conv(*r);
    register_data_dependent(*r);
    register_decoder_attention(*r);
    register_deform_conv(*r);
    register_dropout(*r);
    register_einsum(*r);
    register_elementwise(*r);
    register_expand(*r);
    register_flex_attention(*r);
    register_fused(*r);
    register_gated(*r);
    register_gather(*r);
    register_grid_sample(*r);
    register_group_query(*r);
    register_image_decoder(*r);
    register_integer_product(*r);
    register_legacy(*r);
    register_linear_algebra(*r);
    register_linear_attention(*r);
    register_longformer(*r);
    register_loss(*r);
    register_matmul(*r);
    register_ml_features(*r);
    register_ml_linear(*r);
    register_ml_svm(*r);
    register_ml_tables(*r);
    register_ml_trees(*r);
    register_moe(*r);
    register_nbits(*r);
    register_norm(*r);
    register_optimizers(*r);
    register_order(*r);
    register_ordered(*r);
    register_packed_attention(*r);
    register_pad(*r);
    register_paged_attention(*r);
    register_pool(*r);
    register_pool_positions(*r);
    register_qlinear(*r);
    register_quantize(*r);
    register_quantized_lstm(*r);
    register_quantized_product(*r);
    register_quantized_table(*r);
    register_random(*r);
    register_reduce(*r);
    register_resize(*r);
    register_reverse_sequence(*r);
    register_rnn(*r);
    register_roi(*r);
    register_rotary(*r);
    register_scatter(*r);
    register_select(*r);
    register_sequence(*r);
    register_sequence_host(*r);
    register_shape(*r);
    register_signal(*r);
    register_slice(*r);
    register_softmax(*r);
    register_space(*r);
    register_strings(*r);
    register_tensor_scatter(*r);
    register_tfidf(*r);
    register_variadic(*r);
    return r;
  }();
  return *kRegistry;
}

}  // namespace transmuter::ops
