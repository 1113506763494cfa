#include "base/toml_text.h"

#include <gtest/gtest.h>

namespace tributary {
namespace {

TEST(TomlText, LettersBeyondAsciiMayStandInTextsAndCommentsOnly) {
  EXPECT_FALSE(line_of_stray_letter("a = 1\n"));
  EXPECT_FALSE(line_of_stray_letter("a = \"\xC8\x8B\" # \xC8\x8B\nb = '\xC8\x8B'\n"));
  EXPECT_FALSE(line_of_stray_letter("a = \"\"\"\n\xC8\x8B \" \\\" \"\"\"\n"));
  EXPECT_FALSE(
      line_of_stray_letter("\xEF\xBB\xBF"
                           "a = 1\n"));
  EXPECT_EQ(line_of_stray_letter("a = 1\n\xC8\x8B = 2\n"), 2u);
  EXPECT_EQ(line_of_stray_letter("a = \"x\\\"\" \xC8\x8B"), 1u);
  EXPECT_EQ(line_of_stray_letter("a = '''\n' ''' \xC8\x8B"), 2u);
  EXPECT_EQ(line_of_stray_letter("a = \"never closed\n\xC8\x8B"), 2u);
}

}  // namespace
}  // namespace tributary
