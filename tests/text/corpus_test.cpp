#include "text/corpus.h"

#include <gtest/gtest.h>

#include <rapidcheck.h>
#include <set>

#include "text/batches.h"
#include "text/temporary_folder.h"

namespace tributary::text {
namespace {

Result<Corpus> load(const TemporaryFolder& folder, const std::string& name, double held_out = 0.1) {
  return Corpus::load({{(folder / name).string()}, held_out, folder / "cache"}, Tokenizer::bytes());
}

std::string numbers(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += std::to_string(i) + "\n";
  return text;
}

TEST(Corpus, SplitsEveryTokenIntoOneOfTwoStreams) {
  TemporaryFolder folder;
  const auto text = numbers(20000);
  ASSERT_TRUE(write_file(folder / "a.txt", text).ok());
  const auto corpus = load(folder, "a.txt");
  ASSERT_TRUE(corpus.ok()) << corpus.error().message;
  EXPECT_EQ(corpus->training().size() + corpus->held_out().size(), text.size() + 1);
  EXPECT_NEAR(static_cast<double>(corpus->held_out().size()) / static_cast<double>(text.size()), 0.1, 0.01);
}

TEST(Corpus, ReadsFoldersInSortedOrderAndKnowsWhenTheyChange) {
  TemporaryFolder folder;
  ASSERT_TRUE(make_folder(folder / "texts").ok());
  ASSERT_TRUE(write_file(folder / "texts/b.txt", "second").ok());
  ASSERT_TRUE(write_file(folder / "texts/a.txt", "first").ok());
  const auto corpus = load(folder, "texts", 0);
  ASSERT_TRUE(corpus.ok()) << corpus.error().message;
  const std::vector<Token> stream(corpus->training().begin(), corpus->training().end());
  EXPECT_EQ(Tokenizer::bytes().decode(stream, false), "first<|eos|>second<|eos|>");
  ASSERT_TRUE(write_file(folder / "texts/b.txt", "changed").ok());
  EXPECT_NE(load(folder, "texts", 0)->hash(), corpus->hash());
}

TEST(Corpus, RebuildsADamagedCache) {
  TemporaryFolder folder;
  ASSERT_TRUE(write_file(folder / "a.txt", numbers(1000)).ok());
  const auto first = load(folder, "a.txt");
  ASSERT_TRUE(first.ok());
  const std::vector<std::uint16_t> before(first->training().begin(), first->training().end());
  for (const auto& entry : std::filesystem::directory_iterator(folder / "cache")) {
    auto bytes = read_file(entry.path(), 1 << 20);
    (*bytes)[100] ^= 1;
    ASSERT_TRUE(write_file(entry.path(), *bytes).ok());
  }
  const auto second = load(folder, "a.txt");
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(before, std::vector<std::uint16_t>(second->training().begin(), second->training().end()));
}

TEST(Corpus, NamesWhatIsWrong) {
  TemporaryFolder folder;
  EXPECT_NE(load(folder, "none").error().message.find("none"), std::string::npos);
  ASSERT_TRUE(write_file(folder / "empty.txt", "").ok());
  EXPECT_TRUE(load(folder, "empty.txt").ok());  // one end-of-text token
  ASSERT_TRUE(make_folder(folder / "nothing").ok());
  EXPECT_NE(load(folder, "nothing").error().message.find("holds no files"), std::string::npos);
}

TEST(KeyedPermutation, IsOne) {
  EXPECT_TRUE(rc::check("each index once", [] {
    const auto size = *rc::gen::inRange<std::uint64_t>(1, 3000);
    const KeyedPermutation permutation(*rc::gen::arbitrary<std::uint64_t>(), size);
    std::vector<bool> seen(size);
    for (std::uint64_t i = 0; i < size; ++i) {
      const auto image = permutation(i);
      RC_ASSERT(image < size);
      RC_ASSERT(!seen[image]);
      seen[image] = true;
    }
  }));
}

TEST(Batches, VisitEachWindowOncePerEpochInAnotherOrderEachTime) {
  TemporaryFolder folder;
  ASSERT_TRUE(write_file(folder / "a.txt", numbers(5000)).ok());
  const auto corpus = std::make_shared<Corpus>(std::move(*load(folder, "a.txt")));
  const auto batches = Batches::create(corpus, {7, 3, 2, 64});
  ASSERT_TRUE(batches.ok());
  const auto windows = batches->windows();
  std::vector<std::uint64_t> first, second;
  for (std::uint64_t i = 0; i < windows; ++i) first.push_back(batches->window(i));
  for (std::uint64_t i = 0; i < windows; ++i) second.push_back(batches->window(windows + i));
  EXPECT_EQ(std::set(first.begin(), first.end()).size(), windows);
  EXPECT_EQ(std::set(second.begin(), second.end()).size(), windows);
  EXPECT_NE(first, second);
}

TEST(Batches, AreAFunctionOfSeedIterationAndMicrobatch) {
  TemporaryFolder folder;
  ASSERT_TRUE(write_file(folder / "a.txt", numbers(5000)).ok());
  const auto corpus = std::make_shared<Corpus>(std::move(*load(folder, "a.txt")));
  const auto a = Batches::create(corpus, {7, 3, 2, 64}), b = Batches::create(corpus, {7, 3, 2, 64});
  const auto other = Batches::create(corpus, {8, 3, 2, 64});
  const auto tokens = a->tokens(Iteration(5), MicrobatchId(1));
  EXPECT_EQ(tokens.size(), 2u * 65u);
  EXPECT_EQ(tokens, b->tokens(Iteration(5), MicrobatchId(1)));
  EXPECT_NE(tokens, a->tokens(Iteration(5), MicrobatchId(2)));
  EXPECT_NE(tokens, other->tokens(Iteration(5), MicrobatchId(1)));
  EXPECT_FALSE(Batches::create(corpus, {7, 3, 2, 1u << 30}).ok());
}

}  // namespace
}  // namespace tributary::text
