// Patterns in RE2's syntax, code points and their case. The expected answers are RE2's.
#include "base/pattern.h"

#include <gtest/gtest.h>

#include "base/unicode.h"
#include "transmuter/error.h"

namespace transmuter {
namespace {

struct Row {
  const char* pattern;
  const char* text;
  bool matches;
};

TEST(Pattern, MatchesWholeTexts) {
  const Row rows[] = {
      {"", "", true},
      {"", "a", false},
      {"abc", "abc", true},
      {"abc", "abcd", false},
      {"a|b", "b", true},
      {"a|b", "ab", false},
      {"ab|cd|ef", "cd", true},
      {"ab|cd|ef", "ef", true},
      {"ab|cd|ef", "acd", false},
      {"a(b|c)d", "acd", true},
      {"a*|b", "aaa", true},
      {"a*|b", "b", true},
      {"a*|b", "ab", false},
      {"(a*|b)+c", "abbac", true},
      {"a*", "", true},
      {"a+", "", false},
      {"a?b", "b", true},
      {"a?b", "aab", false},
      {"(ab){2,3}", "ab", false},
      {"(ab){2,3}", "ababab", true},
      {"(ab){2,3}", "abababab", false},
      {"(a|b){0}", "", true},
      {"a{2,}", "aaaa", true},
      {"a{2,}", "a", false},
      {"a{,2}", "a{,2}", true},
      {"a{2", "a{2", true},
      {"(a*)*b", "aaab", true},
      {"(a*)+", "aaaa", true},
      {"[a-c]+", "abcabc", true},
      {"[^a-c]+", "xyz", true},
      {"[^a-c]", "b", false},
      {"[]a]+", "]a]", true},
      {"[a\\]-]+", "a]-", true},
      {"[\\w.-]+", "a_b.c-d", true},
      {"[[:alpha:]]+[[:digit:]]", "ab1", true},
      {"[[:^digit:]]+", "ab", true},
      {"[[:^digit:]]+", "a1", false},
      {"\\d+\\s\\w", "12 x", true},
      {"\\D+", "12", false},
      {"\\w", "\xC3\xA9", false},
      {".", "\xC3\xA9", true},
      {"h\xC3\xA9+", "h\xC3\xA9\xC3\xA9", true},
      {".", "\n", false},
      {"(?s).", "\n", true},
      {"(?i)abc", "aBC", true},
      {"(?i:a)bc", "Abc", true},
      {"(?i:a)bc", "ABC", false},
      {"(?:ab)+", "abab", true},
      {"(?P<x>ab)c", "abc", true},
      {"^abc$", "abc", true},
      {"(\\W|^)x(\\W|$)", "x", true},
      {"(\\W|^)x(\\W|$)", " x ", true},
      {"a^b", "ab", false},
      {"(?m)a$\\n^b", "a\nb", true},
      {"a$\\n^b", "a\nb", false},
      {"ab\\b.*", "ab c", true},
      {"ab\\b.*", "abc", false},
      {"ab\\B.*", "abc", true},
      {"\\Aab\\z", "ab", true},
      {"\\Qa.b*\\E+", "a.b**", true},
      {"\\x41\\x{42}\\103", "ABC", true},
      {"\\.\\*\\\\", ".*\\", true},
      {"a.*?c", "abcc", true},
      {"(a+)+b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaac", false},
  };
  for (const Row& row : rows)
    EXPECT_EQ(Pattern(row.pattern).matches(from_utf8(row.text)), row.matches) << row.pattern << " on " << row.text;
}

TEST(Pattern, FindsTheLongestFromAPlace) {
  const Pattern pattern("a|ab|abc");
  EXPECT_EQ(pattern.longest(U"xabcd", 1), std::optional<size_t>(4));
  EXPECT_EQ(pattern.longest(U"xabcd", 0), std::nullopt);
  EXPECT_EQ(Pattern("b*").longest(U"ab", 0), std::optional<size_t>(0));
}

TEST(Pattern, RefusesWhatItCannotRead) {
  for (const char* bad : {"(", ")", "a)", "[a", "*a", "a{3,2}", "a{1001}", "[b-a]", "(?q)", "\\", "[[:what:]]"}) {
    try {
      const Pattern pattern(bad);
      ADD_FAILURE() << bad << " was accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_model) << bad;
    }
  }
  for (const char* unknown : {"\\pL", "\\C"}) {
    try {
      const Pattern pattern(unknown);
      ADD_FAILURE() << unknown << " was accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::unsupported) << unknown;
    }
  }
  EXPECT_THROW(Pattern(std::string(10000, '(')), Error);
  EXPECT_THROW(Pattern("((a{1000}){1000}){1000}"), Error);
}

TEST(Unicode, ReadsAndWritesUtf8) {
  const std::string text = "a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80";
  EXPECT_EQ(from_utf8(text), U"a\u00E9\u20AC\U0001F600");
  EXPECT_EQ(to_utf8(from_utf8(text)), text);
  EXPECT_EQ(from_utf8("\xFF"
                      "a\xC3"),
            U"\uFFFD"
            U"a\uFFFD");
  EXPECT_EQ(from_utf8("\xC0\x80"), U"\uFFFD\uFFFD");            // overlong
  EXPECT_EQ(from_utf8("\xED\xA0\x80"), U"\uFFFD\uFFFD\uFFFD");  // a surrogate
  EXPECT_EQ(from_utf8("\xF4\x90\x80\x80").size(), 4U);          // beyond the last code point
}

TEST(Unicode, ChangesCase) {
  const auto upper = [](std::u32string text) {
    for (char32_t& c : text) c = to_upper(c);
    return text;
  };
  const auto lower = [](std::u32string text) {
    for (char32_t& c : text) c = to_lower(c);
    return text;
  };
  EXPECT_EQ(upper(U"straße été ÿ ž ŋ ώ привет ё ֆ"), U"STRAßE ÉTÉ Ÿ Ž Ŋ Ώ ПРИВЕТ Ё Ֆ");
  EXPECT_EQ(lower(U"STRAßE ÉTÉ Ÿ Ž Ŋ Ώ ПРИВЕТ Ё Ֆ"), U"straße été ÿ ž ŋ ώ привет ё ֆ");
  EXPECT_EQ(upper(U"×÷1 中"), U"×÷1 中");
  for (char32_t c = 0; c < 0x11000; ++c) {
    if (to_upper(c) == c) continue;
    EXPECT_EQ(to_lower(to_upper(c)), c) << static_cast<uint32_t>(c);
  }
}

}  // namespace
}  // namespace transmuter
