#include "text/safetensors.h"

#include <gtest/gtest.h>

#include "text/temporary_folder.h"

namespace tributary::text {
namespace {

TEST(Safetensors, ReadBackWhatWasWritten) {
  TemporaryFolder folder;
  const std::vector<float> values = {1, -2.5, 3e-8f, 4, 5, 6};
  const std::uint16_t halves[] = {0x3f80, 0xc000};
  ASSERT_TRUE(write_safetensors(folder / "x.safetensors",
                                {{"a", ElementType::kF32, {2, 3}, std::as_bytes(std::span(values))},
                                 {"b", ElementType::kBF16, {2}, std::as_bytes(std::span(halves))}},
                                {{"format", "pt"}})
                  .ok());
  const auto file = Safetensors::open(folder / "x.safetensors");
  ASSERT_TRUE(file.ok()) << file.error().message;
  std::vector<float> a(6), b(2);
  ASSERT_TRUE(file->read("a", {2, 3}, a).ok());
  ASSERT_TRUE(file->read("b", {2}, b).ok());
  EXPECT_EQ(a, values);
  EXPECT_EQ(b, (std::vector<float>{1, -2}));
  EXPECT_EQ(file->header().metadata.at("format"), "pt");
  EXPECT_FALSE(file->read("a", {3, 2}, a).ok());
  EXPECT_NE(file->read("c", {6}, a).error().message.find("\"c\""), std::string::npos);
}

TEST(Safetensors, RefuseHeadersThatLie) {
  const auto refused = [](const std::string& header) { return !parse_safetensors_header(header, 16).ok(); };
  EXPECT_FALSE(refused(R"({"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}})"));
  EXPECT_TRUE(refused(R"({"a":{"dtype":"F32","shape":[5],"data_offsets":[0,20]}})"));
  EXPECT_TRUE(refused(R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,16]}})"));
  EXPECT_TRUE(refused(R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})"));
  EXPECT_TRUE(refused(R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})"));
  EXPECT_TRUE(refused(R"({"a":{"dtype":"F99","shape":[1],"data_offsets":[0,4]}})"));
  EXPECT_TRUE(refused(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[8,4]}})"));
  EXPECT_TRUE(refused(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},
                          "b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})"));
  EXPECT_TRUE(refused(R"({"__metadata__":{"x":1}})"));
  EXPECT_TRUE(refused("[]"));
  EXPECT_TRUE(refused("{"));
}

TEST(Safetensors, RefuseFilesThatAreCutOff) {
  TemporaryFolder folder;
  const std::vector<float> values(64);
  ASSERT_TRUE(
      write_safetensors(folder / "x", {{"a", ElementType::kF32, {64}, std::as_bytes(std::span(values))}}, {}).ok());
  const auto whole = read_file(folder / "x", 1 << 20);
  for (std::size_t size = 0; size < whole->size(); size += 7) {
    ASSERT_TRUE(write_file(folder / "y", whole->substr(0, size)).ok());
    EXPECT_FALSE(Safetensors::open(folder / "y").ok()) << size;
  }
}

TEST(AtomicFile, LeavesTheOldFileUntilTheNewOneIsWhole) {
  TemporaryFolder folder;
  ASSERT_TRUE(write_file(folder / "x", "old").ok());
  {
    auto file = AtomicFile::create(folder / "x");
    ASSERT_TRUE(file.ok());
    ASSERT_TRUE(file->write("new, never committed").ok());
  }
  EXPECT_EQ(*read_file(folder / "x", 100), "old");
  EXPECT_FALSE(std::filesystem::exists(folder / "x.new"));
  EXPECT_FALSE(read_file(folder / "x", 2).ok());
  EXPECT_FALSE(write_file(folder / "no/such/folder", "x").ok());
}

}  // namespace
}  // namespace tributary::text
