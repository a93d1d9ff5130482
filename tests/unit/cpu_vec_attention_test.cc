#include "backends/cpu/kernels/attention.h"

#include "base/thread_pool.h"
#include "cpu_vec_testing.h"

namespace transmuter::cpu {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

enum class Layout { dense, interleaved, spread };  // [b,h,s,d]; [b,s,h,d] with a pitch; unit stride on s, not d

struct Buffer {
  std::vector<float> data;
  int64_t strides[4];
  float& at(int64_t b, int64_t h, int64_t s, int64_t d) {
    return data[static_cast<size_t>(b * strides[0] + h * strides[1] + s * strides[2] + d * strides[3])];
  }
};

Buffer make(Random& random, Layout layout, int64_t b, int64_t h, int64_t s, int64_t d) {
  Buffer buffer;
  if (layout == Layout::dense) {
    std::copy_n(std::vector<int64_t>{h * s * d, s * d, d, 1}.data(), 4, buffer.strides);
    buffer.data = random.floats(static_cast<size_t>(b * h * s * d));
  } else if (layout == Layout::interleaved) {
    const int64_t pitch = h * d + 5;
    std::copy_n(std::vector<int64_t>{s * pitch, d, pitch, 1}.data(), 4, buffer.strides);
    buffer.data = random.floats(static_cast<size_t>(b * s * pitch));
  } else {
    std::copy_n(std::vector<int64_t>{h * s * d, s * d, 1, s}.data(), 4, buffer.strides);
    buffer.data = random.floats(static_cast<size_t>(b * h * s * d));
  }
  return buffer;
}

struct Case {
  int64_t batch, q_heads, kv_heads, q_len, kv_len, dim, v_dim;
  Layout layout = Layout::dense;
  int mask = 0;  // 0 none, 1 additive full, 2 additive per key, 3 keep full, 4 keep per head and key, 5 key stride 2
  bool causal = false;
  int64_t offset = 0, left = -1, right = -1;
  float softcap = 0;
  bool sink = false, lengths = false;
  DType kv_dtype = DType::f32;
};

// Rounds what is there to the half type; the halves.
Tensor to_halves(Buffer& buffer, DType dtype) {
  const Shape shape{static_cast<int64_t>(buffer.data.size())};
  const Tensor halves = Tensor(buffer.data, shape).cast(dtype);
  buffer.data = halves.cast(DType::f32).to_vector<float>();
  return halves;
}

void expect_attention(const Case& c, ThreadPool* pool = nullptr) {
  SCOPED_TRACE(testing::Message() << c.batch << " heads " << c.q_heads << "/" << c.kv_heads << " len " << c.q_len << "x"
                                  << c.kv_len << " dim " << c.dim << "/" << c.v_dim << " mask " << c.mask);
  Random random(static_cast<uint32_t>(c.q_len * 31 + c.kv_len));
  Buffer q = make(random, c.layout, c.batch, c.q_heads, c.q_len, c.dim);
  Buffer k = make(random, c.layout, c.batch, c.kv_heads, c.kv_len, c.dim);
  Buffer v = make(random, c.layout, c.batch, c.kv_heads, c.kv_len, c.v_dim);
  Buffer out = make(random, c.layout, c.batch, c.q_heads, c.q_len, c.v_dim);
  Attention a;
  a.q = q.data.data();
  a.k = k.data.data();
  a.v = v.data.data();
  Tensor half_k, half_v;
  if (c.kv_dtype != DType::f32) {
    half_k = to_halves(k, c.kv_dtype);
    half_v = to_halves(v, c.kv_dtype);
    a.kv_dtype = c.kv_dtype;
    a.k = half_k.bytes();
    a.v = half_v.bytes();
  }
  a.out = out.data.data();
  a.batch = c.batch, a.q_heads = c.q_heads, a.kv_heads = c.kv_heads, a.q_len = c.q_len, a.kv_len = c.kv_len;
  a.dim = c.dim, a.v_dim = c.v_dim;
  for (int i = 0; i < 4; ++i) {
    a.q_strides[i] = q.strides[i], a.k_strides[i] = k.strides[i];
    a.v_strides[i] = v.strides[i], a.out_strides[i] = out.strides[i];
  }
  a.scale = 1.7f / std::sqrt(static_cast<float>(c.dim));
  a.softcap = c.softcap;
  a.causal = c.causal, a.offset = c.offset, a.left = c.left, a.right = c.right;
  std::vector<float> mask;
  std::vector<uint8_t> keep;
  const int64_t full = c.q_len * c.kv_len;
  if (c.mask == 1 || c.mask == 5) {
    mask = random.floats(static_cast<size_t>(c.batch * full * 2), -2, 2);
    for (size_t i = 0; i < mask.size(); i += 3) mask[i] = -kInf;
    const int64_t key = c.mask == 5 ? 2 : 1;
    std::copy_n(std::vector<int64_t>{full * key, 0, c.kv_len * key, key}.data(), 4, a.mask_strides);
  } else if (c.mask == 2) {
    mask = random.floats(static_cast<size_t>(c.batch * c.kv_len), -2, 2);
    for (size_t i = 1; i < mask.size(); i += 4) mask[i] = -3.4028235e38f;
    std::copy_n(std::vector<int64_t>{c.kv_len, 0, 0, 1}.data(), 4, a.mask_strides);
  } else if (c.mask == 3) {
    for (int64_t i = 0; i < c.batch * full; ++i) keep.push_back(random.integer(0, 2) != 0);
    std::copy_n(std::vector<int64_t>{full, 0, c.kv_len, 1}.data(), 4, a.mask_strides);
  } else if (c.mask == 4) {
    for (int64_t i = 0; i < c.q_heads * c.kv_len; ++i) keep.push_back(random.integer(0, 1) != 0);
    std::copy_n(std::vector<int64_t>{0, c.kv_len, 0, 1}.data(), 4, a.mask_strides);
  }
  a.mask = mask.empty() ? nullptr : mask.data();
  a.keep = keep.empty() ? nullptr : keep.data();
  const std::vector<float> sinks = random.floats(static_cast<size_t>(c.q_heads), -1, 2);
  a.sink = c.sink ? sinks.data() : nullptr;
  std::vector<int64_t> lengths, offsets;
  for (int64_t b = 0; b < c.batch; ++b) {
    lengths.push_back(std::max<int64_t>(0, c.kv_len - b * 3));
    offsets.push_back(lengths.back() - c.q_len);
  }
  if (c.lengths) a.key_lengths = lengths.data(), a.offsets = offsets.data();
  attention(a, pool);

  const int64_t group = c.q_heads / c.kv_heads;
  for (int64_t b = 0; b < c.batch; ++b) {
    for (int64_t h = 0; h < c.q_heads; ++h) {
      for (int64_t i = 0; i < c.q_len; ++i) {
        std::vector<double> score(static_cast<size_t>(c.kv_len));
        const int64_t p = i + (c.lengths ? offsets[static_cast<size_t>(b)] : c.offset);
        double top = c.sink ? sinks[static_cast<size_t>(h)] : -kInf;
        for (int64_t j = 0; j < c.kv_len; ++j) {
          double s = 0;
          for (int64_t d = 0; d < c.dim; ++d) s += double{q.at(b, h, i, d)} * k.at(b, h / group, j, d);
          s *= a.scale;
          if (c.softcap > 0) s = c.softcap * std::tanh(s / c.softcap);
          const int64_t m =
              b * a.mask_strides[0] + h * a.mask_strides[1] + i * a.mask_strides[2] + j * a.mask_strides[3];
          if (a.mask) s += mask[static_cast<size_t>(m)];
          bool seen = !a.keep || keep[static_cast<size_t>(m)];
          seen = seen && (!c.lengths || j < lengths[static_cast<size_t>(b)]) && (!c.causal || j <= p);
          seen = seen && (c.left < 0 || j >= p - c.left) && (c.right < 0 || j <= p + c.right);
          score[static_cast<size_t>(j)] = seen ? s : -kInf;
          top = std::max(top, score[static_cast<size_t>(j)]);
        }
        double sum = c.sink ? std::exp(sinks[static_cast<size_t>(h)] - top) : 0;
        std::vector<double> want(static_cast<size_t>(c.v_dim));
        for (int64_t j = 0; j < c.kv_len; ++j) {
          if (std::isinf(score[static_cast<size_t>(j)])) continue;
          const double e = std::exp(score[static_cast<size_t>(j)] - top);
          sum += e;
          for (int64_t d = 0; d < c.v_dim; ++d) want[static_cast<size_t>(d)] += e * v.at(b, h / group, j, d);
        }
        for (int64_t d = 0; d < c.v_dim; ++d) {
          const double w = sum == 0 ? 0 : want[static_cast<size_t>(d)] / sum;
          ASSERT_NEAR(out.at(b, h, i, d), w, 2e-6) << "b" << b << " h" << h << " i" << i << " d" << d;
        }
      }
    }
  }
}

TEST(CpuVecAttention, EveryLength) {
  on_every_target([&] {
    for (int64_t n = 1; n <= 70; ++n) {
      expect_attention({.batch = 1, .q_heads = 2, .kv_heads = 2, .q_len = n, .kv_len = n, .dim = 16, .v_dim = 16});
      expect_attention({.batch = 1, .q_heads = 2, .kv_heads = 1, .q_len = 3, .kv_len = n * 7, .dim = n, .v_dim = n});
      expect_attention(
          {.batch = 1, .q_heads = 1, .kv_heads = 1, .q_len = 1, .kv_len = n * 7, .dim = n, .v_dim = 71 - n});
    }
    expect_attention({.batch = 1, .q_heads = 1, .kv_heads = 1, .q_len = 1, .kv_len = 0, .dim = 8, .v_dim = 8});
    expect_attention({.batch = 1, .q_heads = 1, .kv_heads = 1, .q_len = 9, .kv_len = 0, .dim = 8, .v_dim = 8});
  });
}

TEST(CpuVecAttention, MasksAndLayouts) {
  on_every_target([&] {
    for (Layout layout : {Layout::dense, Layout::interleaved, Layout::spread}) {
      for (int mask = 0; mask <= 5; ++mask) {
        for (int64_t q_len : {1, 2, 13, 60}) {
          expect_attention({.batch = 2,
                            .q_heads = 4,
                            .kv_heads = 2,
                            .q_len = q_len,
                            .kv_len = 203,
                            .dim = 24,
                            .v_dim = 40,
                            .layout = layout,
                            .mask = mask});
        }
      }
    }
  });
}

TEST(CpuVecAttention, GroupsOfFewRows) {
  on_every_target([&] {
    for (int64_t heads = 1; heads <= 9; ++heads) {
      for (int64_t dim : {16, 40, 64, 128, 131}) {
        Case c{.batch = 1, .q_heads = heads, .kv_heads = 1, .q_len = 1, .kv_len = 203, .dim = dim, .v_dim = dim};
        expect_attention(c);
        c.mask = static_cast<int>(heads % 6);
        c.q_len = 2;
        c.causal = true, c.offset = 199;
        expect_attention(c);
      }
    }
  });
}

TEST(CpuVecAttention, HalfKeysAndValues) {
  on_every_target([&] {
    for (Layout layout : {Layout::dense, Layout::interleaved, Layout::spread}) {
      for (DType dtype : {DType::f16, DType::bf16}) {
        for (int64_t q_len : {1, 3, 60}) {
          Case c{.batch = 2, .q_heads = 4, .kv_heads = 2, .q_len = q_len, .kv_len = 203, .dim = 24, .v_dim = 41};
          c.layout = layout;
          c.kv_dtype = dtype;
          expect_attention(c);
        }
      }
    }
  });
}

TEST(CpuVecAttention, CausalWindowsSoftcapSinksLengths) {
  on_every_target([&] {
    for (int64_t q_len : {1, 5, 70}) {
      for (int64_t kv_len : {70, 250}) {
        Case c{.batch = 2, .q_heads = 6, .kv_heads = 2, .q_len = q_len, .kv_len = kv_len, .dim = 32, .v_dim = 32};
        c.causal = true;
        expect_attention(c);
        c.offset = kv_len - q_len;
        expect_attention(c);
        c.left = 9;
        expect_attention(c);
        c.softcap = 0.7f;
        expect_attention(c);
        c.sink = true;
        expect_attention(c);
        c.mask = 1;
        expect_attention(c);
        c.lengths = true;
        expect_attention(c);
        c.causal = false, c.right = 2, c.mask = 0;
        expect_attention(c);
        c.lengths = false, c.offset = -20;  // the first queries see nothing
        expect_attention(c);
        c.sink = false;
        expect_attention(c);
      }
    }
  });
}

TEST(CpuVecAttention, LongDecodesSplitTheKeys) {
  ThreadPool four(4);
  on_every_target([&] {
    for (int64_t heads : {1, 8}) {
      Case c{.batch = 1, .q_heads = heads, .kv_heads = 1, .q_len = 1, .kv_len = 5000, .dim = 64, .v_dim = 64};
      expect_attention(c);
      expect_attention(c, &four);
      c.sink = true, c.left = 3000, c.offset = 4999;
      expect_attention(c, &four);
      c.mask = 3;
      expect_attention(c, &four);
    }
  });
}

TEST(CpuVecAttention, SameAnswerForAnyNumberOfThreads) {
  Random random;
  ThreadPool one(1), four(4);
  const int64_t heads = 3, length = 130, dim = 40;
  const auto x = random.floats(static_cast<size_t>(heads * length * dim));
  std::vector<std::vector<float>> results;
  for (ThreadPool* pool : {static_cast<ThreadPool*>(nullptr), &one, &four}) {
    std::vector<float> y(x.size());
    Attention a;
    a.q = x.data();
    a.k = a.v = a.q;
    a.out = y.data();
    a.q_heads = a.kv_heads = heads, a.q_len = a.kv_len = length, a.dim = a.v_dim = dim;
    for (int64_t* strides : {a.q_strides, a.k_strides, a.v_strides, a.out_strides}) {
      std::copy_n(std::vector<int64_t>{0, length * dim, dim, 1}.data(), 4, strides);
    }
    attention(a, pool);
    results.push_back(y);
  }
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(results[0], results[2]);
}

}  // namespace
}  // namespace transmuter::cpu
