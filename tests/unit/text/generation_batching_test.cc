// Calls of several threads in one batch: each gets the tokens that it would get alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <thread>

#include "../errors.h"
#include "transmuter/error.h"
#include "transmuter/generation.h"
#include "transmuter/graph.h"

namespace transmuter {
namespace {

using ::testing::HasSubstr;
using Ids = std::vector<int64_t>;

// Words of tiny_chat.
enum : int64_t {
  kStart = 1,
  kEnd = 2,
  kUser = 3,
  kAssistant = 4,
  kHello = 7,
  kHi = 8,
  kThere = 9,
  kDot = 11,
  kGood = 12
};

// tiny_chat, taking positions, which it makes nothing of: only then may rows be moved in a batch.
const TokenGenerator& chat() {
  static const TokenGenerator generator = [] {
    const std::string folder = std::string(TRANSMUTER_TEST_DATA) + "/tiny_chat";
    GenerationModels models = GenerationModels::load(folder);
    GraphEdit edit = Graph::load(folder + "/model.onnx").edit();
    ValueSpec positions;
    positions.name = "position_ids";
    positions.dtype = DType::i64;
    positions.has_shape = true;
    positions.shape = {{-1, "batch"}, {-1, "sequence"}};
    edit.add_input(positions);
    models.decoder = Model::from_graph(edit.commit());
    return TokenGenerator(models, GenerationConfig::load(folder));
  }();
  return generator;
}

GeneratedTokens write(const TokenGenerator& generator, const Ids& ids, const GenerationConfig& config,
                      const GenerationCall& call = {}) {
  const GenerationPrompt prompt{ids, {}, {}, {}};
  return generator({&prompt, 1}, config, call)[0];
}

TEST(GenerationBatching, ACallJoinsAnotherThatIsUnderWay) {
  const TokenGenerator shared = chat().batched();
  GenerationConfig config = chat().config();
  config.eos_token_id.clear();
  config.max_new_tokens = 12;
  // The second begins at the third token of the first, and is told of its own by the first one's thread.
  std::thread second;
  std::thread::id first_thread = std::this_thread::get_id();
  std::atomic<int> begun{0}, told_by_first{0};
  GeneratedTokens answer;
  GenerationCall other;
  other.on_token = [&](size_t, int64_t) {
    told_by_first += std::this_thread::get_id() == first_thread;
    return true;
  };
  GenerationCall call;
  int tokens = 0;
  call.on_token = [&](size_t, int64_t) {
    if (++tokens == 3) {
      second = std::thread([&] {
        begun = 1;
        answer = write(shared, {kStart, kUser, kGood, kHello, kAssistant, kGood}, config, other);
      });
      while (begun == 0) std::this_thread::yield();
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    return true;
  };
  const GeneratedTokens one = write(shared, {kAssistant}, config, call);
  second.join();
  EXPECT_EQ(one.ids, write(chat(), {kAssistant}, config).ids);
  EXPECT_EQ(answer.ids, write(chat(), {kStart, kUser, kGood, kHello, kAssistant, kGood}, config).ids);
  EXPECT_GT(told_by_first, 3);
}

TEST(GenerationBatching, EveryCallGetsWhatItWouldGetAlone) {
  const TokenGenerator shared = chat().batched({.tokens = 300, .delay_ms = 1});
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 40; ++i) {
        GenerationConfig config = chat().config();
        config.do_sample = (t + i) % 3 != 0;
        config.seed = static_cast<uint64_t>(t * 100 + i);
        config.max_new_tokens = 1 + (t * 7 + i) % 13;
        config.num_return_sequences = config.do_sample ? 1 + i % 3 : 1;
        config.repetition_penalty = i % 2 == 0 ? 1 : 1.3;
        if (i % 5 == 0) config.num_beams = 3;
        std::vector<GenerationPrompt> prompts = {{Ids(static_cast<size_t>(1 + (i * t) % 20), kHi), {}, {}, {}}};
        if (i % 4 == 0) prompts.push_back({{kUser, kGood, kAssistant}, {}, {}, {}});
        const auto expected = chat()(prompts, config), got = shared(prompts, config);
        for (size_t a = 0; a < expected.size(); ++a)
          wrong += got[a].ids != expected[a].ids || got[a].reason != expected[a].reason ||
                   got[a].padding != expected[a].padding;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(GenerationBatching, FaultsAndCancellationsAreTheirCallsAlone) {
  const TokenGenerator shared = chat().batched({.delay_ms = 5});
  GenerationConfig config = chat().config();
  config.max_new_tokens = 10;
  const Ids expected = write(chat(), {kAssistant}, config).ids;
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0}, refused{0}, thrown{0}, cancelled{0};
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20; ++i) {
        CancelToken cancel;
        GenerationCall call;
        Ids prompt = {kAssistant};
        if (t == 0) prompt = {kAssistant, 1000};  // no word of the model's
        if (t == 1) call.on_token = [](size_t, int64_t id) -> bool { return id == kThere ? throw 7 : true; };
        if (t == 2) {
          call.cancel = &cancel;
          call.on_token = [&cancel](size_t, int64_t id) {
            if (id == kThere) cancel.cancel();
            return true;
          };
        }
        try {
          wrong += write(shared, prompt, config, call).ids != expected;
        } catch (const Error& error) {
          (error.code() == ErrorCode::cancelled ? cancelled : refused) += 1;
          if (t != 0 && t != 2) ++wrong;
        } catch (int) {
          ++thrown;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(refused, 20);
  EXPECT_EQ(thrown, 20);
  EXPECT_EQ(cancelled, 20);
}

TEST(GenerationBatching, WaitsForCompanyAndNoLongerThanSaid) {
  const TokenGenerator shared = chat().batched({.delay_ms = 30});
  const auto begin = std::chrono::steady_clock::now();
  write(shared, {kAssistant}, chat().config());
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(29));
  EXPECT_THAT(error_of([] { chat().batched({.tokens = 0}); }), HasSubstr("tokens"));
  // Two that come together are one batch: one thread tells of both.
  const TokenGenerator full = chat().batched({.tokens = 40, .delay_ms = 60000});
  GenerationConfig config = chat().config();
  config.max_new_tokens = 19;
  std::set<std::thread::id> told;
  std::mutex mutex;
  GenerationCall call;
  call.on_token = [&](size_t, int64_t) {
    const std::lock_guard lock(mutex);
    told.insert(std::this_thread::get_id());
    return true;
  };
  std::thread other([&] { write(full, {kAssistant}, config, call); });
  write(full, {kAssistant}, config, call);
  other.join();
  EXPECT_EQ(told.size(), 1U);
}

// Real forms: positions, masks and windows have to agree wherever a row lies.
TEST(GenerationBatching, DecodersOfTheZooWriteTheSame) {
  const char* cases = std::getenv("TRANSMUTER_CASES");
  if (!cases) GTEST_SKIP() << "TRANSMUTER_CASES is not set";
  for (const char* name : {"gpt2_past", "llama_past", "qwen2_past", "gemma2_past", "mistral_sw_past", "falcon_past"}) {
    SCOPED_TRACE(name);
    GenerationModels models;
    models.decoder = Model::load((std::filesystem::path(cases) / "zoo_text" / name / "model.onnx").string());
    models.compile.threads = 1;
    const TokenGenerator alone(models, {}), shared = alone.batched();
    std::vector<std::thread> threads;
    std::atomic<int> wrong{0};
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < 3; ++i) {
          GenerationConfig config = alone.config();
          config.max_new_tokens = 6 + 3 * t + i;
          Ids ids;
          for (int k = 0; k < 2 + 4 * ((t + i) % 3); ++k) ids.push_back(3 + (k * 37 + t * 11 + i * 5) % 90);
          wrong += write(shared, ids, config).ids != write(alone, ids, config).ids;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(wrong, 0);
  }
}

}  // namespace
}  // namespace transmuter
