// Code points in UTF-8 and their case.
#include "base/unicode.h"

#include <gtest/gtest.h>

namespace transmuter {
namespace {

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
