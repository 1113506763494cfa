#include "text/tokenizer.h"

#include <gtest/gtest.h>

#include <rapidcheck.h>
#include <nlohmann/json.hpp>

#include "text/temporary_folder.h"
#include "text/utf8.h"

namespace tributary::text {
namespace {

// Bytes, three merges and one special token, on GPT-2's pre-tokenizer.
nlohmann::json small_tokenizer() {
  auto root = nlohmann::json::parse(byte_tokenizer_json());
  root["pre_tokenizer"]["use_regex"] = true;
  auto& vocabulary = root["model"]["vocab"];
  vocabulary["th"] = 258;
  vocabulary["the"] = 259;
  vocabulary["\u0120the"] = 260;  // a blank in front
  root["model"]["merges"] = {"t h", "th e", "\u0120 the"};
  return root;
}

TEST(ByteTokenizer, GivesBackEveryByteString) {
  const auto tokenizer = Tokenizer::bytes();
  EXPECT_EQ(tokenizer.vocabulary(), 258u);
  EXPECT_EQ(tokenizer.bos(), 256);
  EXPECT_EQ(tokenizer.eos(), 257);
  EXPECT_TRUE(rc::check("decode(encode(x)) = x", [&](const std::string& text) {
    const auto tokens = tokenizer.encode(text, false);
    RC_ASSERT(tokens.ok());
    RC_ASSERT(tokens->size() == text.size());
    RC_ASSERT(tokenizer.decode(*tokens) == text);
  }));
}

TEST(ByteTokenizer, IsAnOrdinaryTokenizerFile) {
  TemporaryFolder folder;
  ASSERT_TRUE(Tokenizer::bytes().save(folder.path(), 512).ok());
  const auto again = Tokenizer::load(folder.path().string());
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_EQ(again->hash(), Tokenizer::bytes().hash());
  EXPECT_EQ(*again->encode("a\xc3\xa9<|eos|>"), (std::vector<Token>{97, 0xc3, 0xa9, 257}));
}

TEST(BytePairs, MergeByRankWithinWords) {
  const auto tokenizer = Tokenizer::parse(small_tokenizer().dump());
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  EXPECT_EQ(*tokenizer->encode("the the"), (std::vector<Token>{259, 260}));
  EXPECT_EQ(*tokenizer->encode("bathe"), (std::vector<Token>{'b', 'a', 259}));
  EXPECT_EQ(*tokenizer->encode("t h"), (std::vector<Token>{'t', ' ', 'h'}));
  EXPECT_EQ(tokenizer->decode(std::vector<Token>{259, 260}), "the the");
}

TEST(BytePairs, TakeAddedTokensFromTextOnlyIfAsked) {
  const auto tokenizer = Tokenizer::parse(small_tokenizer().dump());
  ASSERT_TRUE(tokenizer.ok());
  EXPECT_EQ(*tokenizer->encode("x<|eos|>the"), (std::vector<Token>{'x', 257, 259}));
  EXPECT_GT(tokenizer->encode("x<|eos|>the", false)->size(), 3u);
  EXPECT_EQ(tokenizer->decode(std::vector<Token>{'x', 257}), "x");
}

TEST(BytePairs, GiveBackEveryUtf8Text) {
  const auto tokenizer = Tokenizer::parse(small_tokenizer().dump());
  ASSERT_TRUE(tokenizer.ok());
  for (const std::string text : {"", " ", "\n\n  x", "Ünïcode — the 日本語 text\u00a0!", "12345 the3the"}) {
    EXPECT_EQ(tokenizer->decode(*tokenizer->encode(text)), text);
  }
  const auto bad = tokenizer->encode("ab\xff");
  ASSERT_FALSE(bad.ok());
  EXPECT_NE(bad.error().message.find("byte 2"), std::string::npos) << bad.error().message;
}

TEST(BytePairs, LongWordsCostLittleMoreThanLinearTime) {
  const auto tokenizer = Tokenizer::parse(small_tokenizer().dump());
  ASSERT_TRUE(tokenizer.ok());
  std::string text;
  for (int i = 0; i < 300000; ++i) text += "the";
  EXPECT_EQ(tokenizer->encode(text)->size(), 300000u);
}

TEST(TokenizerFile, SaysWhatItDoesNotSupport) {
  const auto fault = [](const nlohmann::json& root) {
    const auto tokenizer = Tokenizer::parse(root.dump());
    return tokenizer.ok() ? std::string() : tokenizer.error().message;
  };
  auto root = small_tokenizer();
  EXPECT_EQ(fault(root), "");
  root["model"]["type"] = "Unigram";
  EXPECT_NE(fault(root).find("Unigram"), std::string::npos);
  root = small_tokenizer();
  root["normalizer"] = {{"type", "NFC"}};
  EXPECT_NE(fault(root).find("NFC"), std::string::npos);
  root = small_tokenizer();
  root["model"]["merges"] = {"t q"};
  EXPECT_NE(fault(root).find("merge 0"), std::string::npos);
  root = small_tokenizer();
  root["model"]["vocab"]["x"] = 70000;
  EXPECT_NE(fault(root).find("70000"), std::string::npos);
  root = small_tokenizer();
  root["model"]["vocab"]["zz"] = 5;
  EXPECT_NE(fault(root).find("two tokens"), std::string::npos);
  root = small_tokenizer();
  root["pre_tokenizer"] = {{"type", "Split"}, {"pattern", {{"Regex", "("}}}, {"behavior", "Isolated"}};
  EXPECT_NE(fault(root).find("does not compile"), std::string::npos);
  EXPECT_NE(fault(nlohmann::json::array()).find("model"), std::string::npos);
  EXPECT_FALSE(Tokenizer::parse("{").ok());
  EXPECT_NE(Tokenizer::load("/no/such/file").error().message.find("/no/such/file"), std::string::npos);
}

TEST(Utf8Stream, PassesWholeCharactersAndReplacesTheRest) {
  Utf8Stream stream;
  EXPECT_EQ(stream.push("a\xe6\x97"), "a");
  EXPECT_EQ(stream.push("\xa5"), "\u65e5");
  EXPECT_EQ(stream.push("\xb5x"), "\ufffdx");
  EXPECT_EQ(stream.push("\xe6x"), "\ufffdx");
  EXPECT_EQ(stream.push("\xf0\x9f"), "");
  EXPECT_EQ(stream.finish(), "\ufffd\ufffd");
}

}  // namespace
}  // namespace tributary::text
