// What the regular expressions of strings.cc rest on: whole matches, places, and errors that hold the pattern.
#include "base/pattern.h"

#include <gtest/gtest.h>

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
      {"\\pL+", "h\xC3\xA9", true},
      {"\\p{Greek}", "a", false},
      {".", "\xFF", false},
      {"(a+)+b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaac", false},
  };
  for (const Row& row : rows)
    EXPECT_EQ(Pattern(row.pattern).matches(row.text), row.matches) << row.pattern << " on " << row.text;
}

TEST(Pattern, FindsTheLongestOfEachPlace) {
  using Places = std::vector<std::pair<size_t, size_t>>;
  EXPECT_EQ(Pattern("a|ab|abc").places("xabcda"), (Places{{1, 4}, {5, 6}}));
  EXPECT_EQ(Pattern("b*").places("ab\xC3\xA9"
                                 "bb"),
            (Places{{1, 2}, {4, 6}}));
  EXPECT_EQ(Pattern("x").places(""), Places{});
}

TEST(Pattern, RefusesWhatItCannotRead) {
  for (const char* bad : {"(", ")", "a)", "[a", "*a", "a{3,2}", "a{1001}", "[b-a]", "(?q)", "\\", "[[:what:]]",
                          "(a)\\1", "(?=a)", "\xFF"}) {
    try {
      const Pattern pattern(bad);
      ADD_FAILURE() << bad << " was accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_model) << bad;
      EXPECT_NE(std::string_view(error.what()).find(bad), std::string_view::npos) << error.what();
    }
  }
  EXPECT_THROW(Pattern(std::string(10000, '(')), Error);
  EXPECT_THROW(Pattern("((a{1000}){1000}){1000}"), Error);
}

}  // namespace
}  // namespace transmuter
