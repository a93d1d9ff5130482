// Templates written here, whose renderings follow from Jinja's and transformers' rules by hand; and the recorded
// renderings of chat_templates.json, where $TRANSMUTER_CASES or $TRANSMUTER_CASE_ARCHIVES has it.
#include "transmuter/chat_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "../temporary_folder.h"
#include "transmuter/error.h"

namespace transmuter {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;
using ::testing::HasSubstr;

constexpr const char* kHello = R"([{"role": "user", "content": "Hi <there>"}])";

std::string render(const std::string& source, const std::string& messages = kHello, const ChatOptions& options = {}) {
  return ChatTemplate::parse(source, {{"bos_token", "<s>"}}).render(messages, options);
}

Error error_of(const std::string& source, const std::string& messages = kHello, const ChatOptions& options = {}) {
  try {
    const std::string text = render(source, messages, options);
    ADD_FAILURE() << "no error, but " << text;
  } catch (const Error& error) {
    return error;
  }
  return Error(ErrorCode::internal, "");
}

TEST(ChatTemplate, RendersAsTransformersSetsJinjaUp) {
  // Blocks take their line with them; nothing is escaped; the source's last newline is dropped.
  EXPECT_EQ(render("{{ bos_token }}\n  {% for m in messages %}\n{{ m.role }}: {{ m['content'] }}\n  {% endfor %}\n"),
            "<s>\nuser: Hi <there>\n");
  EXPECT_EQ(render("{{ tools is none }} {{ documents is none }} {{ add_generation_prompt }}"), "True True False");
  EXPECT_EQ(render("[{{ unknown }}][{{ messages[0].nothing }}]"), "[][]");
}

TEST(ChatTemplate, WritesJsonAsPythonDoes) {
  const ChatOptions options = {.variables = R"({"x": {"b": 1, "a": [1.0, 1e16, 1e-5, true, null, "é<\"\n"]}})"};
  EXPECT_EQ(render("{{ x | tojson }}", kHello, options), R"({"b": 1, "a": [1.0, 1e+16, 1e-05, true, null, "é<\"\n"]})");
  EXPECT_EQ(render("{{ x | tojson(sort_keys=true, separators=(',', ':'), ensure_ascii=true) }}", kHello, options),
            R"({"a":[1.0,1e+16,1e-05,true,null,"\u00e9<\"\n"],"b":1})");
  EXPECT_EQ(render("{{ {'a': [1, {}]} | tojson(indent=2) }}"), "{\n  \"a\": [\n    1,\n    {}\n  ]\n}");
  EXPECT_EQ(render("{{ {'a': [1, 'x', none, true]} }}"), "{'a': [1, 'x', None, True]}");
}

TEST(ChatTemplate, KnowsPythonsMethods) {
  EXPECT_EQ(render("{{ 'abcab'.removeprefix('ab') }} {{ 'abcab'.removesuffix('ab') }}"), "cab abc");
  EXPECT_EQ(render("{{ 'a</t>b</t>c'.split('</t>')[-1] }} {{ 'a.b.c'.rsplit('.', 1)[0] }}"), "c a.b");
  EXPECT_EQ(render("{{ 'a.b.c'.split('.', maxsplit=1)[1] }} {{ ' a  b c '.rsplit(none, 1) }}"), "b.c [' a  b', 'c']");
  EXPECT_EQ(render("{{ 'k=v=w'.partition('=')[2] }} {{ 'k=v=w'.rpartition('=')[0] }}"), "v=w k=v");
  EXPECT_EQ(render("{{ ['x', 'y'].index('y') }} {{ 'xyz'.index('z') }}"), "1 2");
  EXPECT_EQ(render("{{ '7'.zfill(3) }}|{{ 'a'.ljust(3) }}|{{ 'a'.rjust(3, '.') }}|{{ 'ab'.center(5, '-') }}"),
            "007|a  |..a|--ab-");
  EXPECT_EQ(render("{% for k, v in messages[0].items() %}{{ k }}={{ v }};{% endfor %}"),
            "role=user;content=Hi <there>;");
}

TEST(ChatTemplate, GenerationBlocksAreTransparent) {
  EXPECT_EQ(render("a\n{%- generation -%}\n b {{ '{% generation %}' }}{# {% generation %} #}\n{%- endgeneration %}c"),
            "ab {% generation %}c");
  EXPECT_EQ(render("{% raw %}{% generation %}{% endraw %}"), "{% generation %}");
  EXPECT_EQ(render("{% for m in [1, 2, 3] %}{% if m == 2 %}{% continue %}{% endif %}{{ m }}{% endfor %}"), "13");
}

TEST(ChatTemplate, TellsTheTime) {
  const ChatOptions options = {.now = 1741359845};  // 2025-03-07 15:04:05 UTC
  const std::time_t now = *options.now;
  std::tm local = {};
  localtime_r(&now, &local);
  char expected[64];
  std::strftime(expected, sizeof expected, "%d %B %Y %H:%M", &local);
  EXPECT_EQ(render("{{ strftime_now('%d %B %Y %H:%M') }}", kHello, options), expected);
}

TEST(ChatTemplate, DropsNullsAndGivesReasoningItsNames) {
  const std::string messages = R"([{"role": "assistant", "content": null, "reasoning": "so"}])";
  EXPECT_EQ(
      render("{{ 'content' in messages[0] }} {{ messages[0].thinking }} {{ messages[0].reasoning_content }}", messages),
      "False so so");
  EXPECT_EQ(render("{{ messages[0].content is none }}", messages, {.keep_nulls = true}), "True");
}

TEST(ChatTemplate, GoesOnWithTheLastMessage) {
  const std::string source = "{% for m in messages %}<{{ m.role }}>{{ m.content }}<end>\n{% endfor %}";
  const std::string messages = R"([{"role": "user", "content": "a"}, {"role": "assistant", "content": "Sure: "}])";
  EXPECT_EQ(render(source, messages, {.continue_final_message = true}), "<user>a<end>\n<assistant>Sure: ");
  const std::string trimming = "{% for m in messages %}<{{ m.role }}>{{ m.content | trim }}<end>{% endfor %}";
  EXPECT_EQ(render(trimming, messages, {.continue_final_message = true}), "<user>a<end><assistant>Sure:");
  EXPECT_THAT(error_of("{{ messages[0].role }}", messages, {.continue_final_message = true}).what(),
              HasSubstr("does not show the last message"));
  EXPECT_THAT(error_of(source, messages, {.add_generation_prompt = true, .continue_final_message = true}).what(),
              HasSubstr("exclude each other"));
}

TEST(ChatTemplate, TheTemplatesOwnRefusalIsTheErrorsSentence) {
  const Error error = error_of("{% macro f() %}{{ raise_exception('roles must alternate') }}{% endmacro %}{{ f() }}");
  EXPECT_EQ(error.code(), ErrorCode::invalid_input);
  EXPECT_EQ(error.sentence(), "roles must alternate");
}

TEST(ChatTemplate, SaysWhatIsWrongAndWhere) {
  const Error broken = error_of("a\n{% for x in %}");
  EXPECT_EQ(broken.code(), ErrorCode::invalid_model);
  EXPECT_THAT(broken.what(), HasSubstr("in line 2"));
  EXPECT_THAT(error_of("a\nb\n{{ messages[0].nothing.deeper }}").what(), HasSubstr("in line 3"));
  EXPECT_THAT(error_of("{{ messages.append(1) }}").what(), HasSubstr("unknown method"));
  EXPECT_THAT(error_of("x", "{}").what(), HasSubstr("the messages are not a JSON list"));
  EXPECT_THAT(error_of("x", "[").what(), HasSubstr("the text of the messages is not valid JSON"));
  EXPECT_THAT(error_of("x", "[]").what(), HasSubstr("at least one message"));
}

TEST(ChatTemplate, BoundsWhatATemplateCanDo) {
  EXPECT_THAT(error_of("{% for a in range(99999) %}{% for b in range(99999) %}x{% endfor %}{% endfor %}").what(),
              HasSubstr("more work than a chat template may"));
  EXPECT_THAT(error_of("{{ 'x' * 99999999999 }}").code(), ErrorCode::invalid_input);
  EXPECT_THAT(error_of("{{ 'x'.ljust(99999999999) }}").code(), ErrorCode::invalid_input);
  EXPECT_EQ(error_of("{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}").code(), ErrorCode::invalid_input);
  std::string nested;
  for (int i = 0; i < 100000; ++i) nested += "(";
  EXPECT_EQ(error_of("{{ " + nested + " }}").code(), ErrorCode::invalid_model);
}

class ChatFolder : public ::testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) {
    fs::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name) << text;
  }
  std::string render(const ChatOptions& options = {}) {
    return ChatTemplate::load(folder_.string()).render(kHello, options);
  }
  std::string error() {
    try {
      render();
    } catch (const Error& error) {
      return error.what();
    }
    ADD_FAILURE() << "no error";
    return "";
  }

  TemporaryFolder folder_;
};

TEST_F(ChatFolder, TheFileBesideTheTokenizerWins) {
  write("tokenizer_config.json", R"({"chat_template": "config", "eos_token": {"content": "</s>"}})");
  EXPECT_EQ(render(), "config");
  write("chat_template.jinja", "file {{ eos_token }}");
  EXPECT_EQ(render(), "file </s>");
}

TEST_F(ChatFolder, AListHasOneForTools) {
  write("tokenizer_config.json",
        R"({"chat_template": [{"name": "default", "template": "d"}, {"name": "tool_use", "template": "t"}]})");
  EXPECT_EQ(render(), "d");
  EXPECT_EQ(render({.tools = "[{}]"}), "t");
}

TEST_F(ChatFolder, FurtherTemplatesLieInAFolder) {
  write("chat_template.jinja", "d");
  write("additional_chat_templates/tool_use.jinja", "t");
  EXPECT_EQ(render({.tools = "[{}]"}), "t");
}

TEST_F(ChatFolder, ErrorsNameTheFile) {
  EXPECT_THAT(error(), HasSubstr("there is no chat template in " + folder_.string()));
  write("tokenizer_config.json", "{");
  EXPECT_THAT(error(), HasSubstr("tokenizer_config.json is not valid JSON"));
  write("tokenizer_config.json", R"({"chat_template": 3})");
  EXPECT_THAT(error(), HasSubstr("tokenizer_config.json is neither a text nor a list"));
  write("tokenizer_config.json", R"({"chat_template": "{{ raise_exception('no') }}"})");
  EXPECT_THAT(error(), HasSubstr("no, in " + (folder_ / "tokenizer_config.json").string()));
}

// {template, messages, kwargs, now, expected or expected_error}
fs::path recorded_cases() {
  for (const char* variable : {"TRANSMUTER_CASES", "TRANSMUTER_CASE_ARCHIVES"})
    if (const char* folder = std::getenv(variable))
      if (const fs::path file = fs::path(folder) / "chat_templates.json"; fs::exists(file)) return file;
  return {};
}

TEST(ChatTemplate, RecordedRenderings) {
  const fs::path path = recorded_cases();
  if (path.empty()) GTEST_SKIP() << "neither TRANSMUTER_CASES nor TRANSMUTER_CASE_ARCHIVES has chat_templates.json";
  std::ifstream file(path);
  for (const ordered_json& entry : ordered_json::parse(file)) {
    SCOPED_TRACE(entry["name"]);
    std::tm local = {};
    local.tm_isdst = -1;
    ASSERT_NE(strptime(entry["now"].get<std::string>().c_str(), "%Y-%m-%dT%H:%M:%S", &local), nullptr);
    ordered_json variables = entry["kwargs"];
    const ChatOptions options = {.keep_nulls = true, .variables = variables.dump(), .now = std::mktime(&local)};
    std::string text;
    try {
      text = ChatTemplate::parse(entry["template"].get<std::string>()).render(entry["messages"].dump(), options);
    } catch (const Error& error) {
      ASSERT_TRUE(entry.contains("expected_error")) << error.what();
      EXPECT_EQ(error.sentence(), entry["expected_error"].get<std::string>());
      continue;
    }
    ASSERT_TRUE(entry.contains("expected")) << text;
    EXPECT_EQ(text, entry["expected"].get<std::string>());
  }
}

}  // namespace
}  // namespace transmuter
